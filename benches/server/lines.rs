//! Draws line charts as SVG, with the number of items on the horizontal axis.

use plotters::prelude::*;

use super::canvas::{Area, INK, MARGIN, PALE, TITLE_HEIGHT, canvas, colour, ink, write};
use super::failure::Failure;
use super::text::{grouped, mark};

/// One line.
pub(crate) struct Line {
    /// Its name in the legend.
    pub(crate) series: String,
    /// Points: the number of items and the value.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Height of the plot with its scales.
const PLOT_HEIGHT: i32 = 310;
/// Height of a line of the legend.
const LEGEND_LINE_HEIGHT: i32 = 19;

/// Draws lines. The horizontal axis is logarithmic, the vertical one begins at zero. `limit` is a dashed line.
pub(crate) fn lines(
    title: &str,
    unit: &str,
    lines: &[Line],
    limit: Option<(&str, f64)>,
) -> Result<String, Failure> {
    let values = || lines.iter().flat_map(|line| &line.points);
    let items = |pick: fn(f64, f64) -> f64, start| values().map(|(x, _)| *x).fold(start, pick);
    let (first, last) = (items(f64::min, f64::MAX), items(f64::max, 1.0));
    let highest = values().map(|(_, y)| *y).chain(limit.map(|(_, y)| y)).fold(f64::MIN_POSITIVE, f64::max);
    let legend_lines = i32::try_from(lines.len() + usize::from(limit.is_some()))?;
    let legend_end = TITLE_HEIGHT + legend_lines * LEGEND_LINE_HEIGHT;
    let mut svg = String::new();
    {
        let area = canvas(&mut svg, legend_end + PLOT_HEIGHT, title, unit)?;
        let dashes = INK.stroke_width(1);
        let (_, plot) = area.split_vertically(legend_end);
        let mut chart = ChartBuilder::on(&plot)
            .margin(12)
            .margin_right(48)
            .x_label_area_size(46)
            .y_label_area_size(40)
            .build_cartesian_2d((first..last).log_scale(), 0.0..highest * 1.05)?;
        chart
            .configure_mesh()
            .x_labels(8)
            .y_labels(7)
            .x_desc("items in the filter")
            .x_label_formatter(&|x| grouped(*x))
            .y_label_formatter(&|y| mark(*y))
            .label_style(ink(16))
            .bold_line_style(PALE)
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .draw()?;
        let mut middle = TITLE_HEIGHT + LEGEND_LINE_HEIGHT / 2;
        for (place, line) in lines.iter().enumerate() {
            let colour = colour(place);
            let points = line.points.iter().copied();
            chart.draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))?;
            area.draw(&Circle::new((MARGIN + 7, middle), 5, colour.filled()))?;
            legend(&area, &line.series, &mut middle)?;
        }
        if let Some((name, value)) = limit {
            chart.draw_series(DashedLineSeries::new([(first, value), (last, value)], 6, 4, dashes))?;
            area.draw(&PathElement::new([(MARGIN, middle), (MARGIN + 14, middle)], dashes))?;
            legend(&area, name, &mut middle)?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// Writes one name of the legend and moves to the next line.
fn legend(area: &Area<'_>, name: &str, middle: &mut i32) -> Result<(), Failure> {
    write(area, name, (MARGIN + 24, *middle), ink(16))?;
    *middle += LEGEND_LINE_HEIGHT;
    Ok(())
}
