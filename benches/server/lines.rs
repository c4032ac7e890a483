//! Line charts over items, as SVG.

use plotters::prelude::*;

use super::canvas::{FRAME_HEIGHT, INK, PALE, ROW_HEIGHT, canvas, colour, ink, legend};
use super::failure::Failure;
use super::text::{grouped, rounded};

/// One line.
pub(crate) struct Line {
    /// Name of its series.
    pub(crate) series: String,
    /// Numbers of items, and the value at each.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Height of the picture.
const HEIGHT: u32 = 380;

/// Draws lines over items on a logarithmic scale; the values start at zero. A `limit` has its own line.
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
    let legend_rows = lines.len() + usize::from(limit.is_some()) + 1;
    let share = legend_rows as f64 * f64::from(ROW_HEIGHT) / f64::from(HEIGHT - FRAME_HEIGHT);
    let mut svg = String::new();
    {
        let area = canvas(&mut svg, HEIGHT)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ink(16))
            .margin(12)
            .margin_right(48)
            .x_label_area_size(46)
            .y_label_area_size(64)
            .build_cartesian_2d((first..last).log_scale(), 0.0..highest / (1.0 - share))?;
        chart
            .configure_mesh()
            .x_labels(8)
            .y_labels(7)
            .x_desc("items in the filter")
            .y_desc(unit)
            .x_label_formatter(&|x| grouped(*x))
            .y_label_formatter(&|y| rounded(*y))
            .label_style(ink(13))
            .bold_line_style(PALE)
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .draw()?;
        if let Some((name, value)) = limit {
            let style = INK.stroke_width(1);
            let path = DashedLineSeries::new([(first, value), (last, value)], 6, 4, style);
            chart
                .draw_series(path)?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], style));
        }
        for (place, line) in lines.iter().enumerate() {
            let style = colour(place).stroke_width(2);
            chart
                .draw_series(LineSeries::new(line.points.iter().copied(), style).point_size(3))?
                .label(&line.series)
                .legend(move |(x, y)| Circle::new((x + 7, y), 5, style.filled()));
        }
        legend(&mut chart)?;
        area.present()?;
    }
    Ok(svg)
}
