//! Bar charts as SVG.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::canvas::{FRAME_HEIGHT, INK, PALE, ROW_HEIGHT, canvas, colour, ink, legend};
use super::failure::Failure;
use super::text::{number, rounded};

/// One bar.
pub(crate) struct Bar {
    /// Name of its series.
    pub(crate) series: String,
    /// Its length.
    pub(crate) value: f64,
    /// The median distance from the median, if it is known.
    pub(crate) deviation: Option<f64>,
}

/// Bars that are compared.
pub(crate) struct Group {
    /// The common label of the bars.
    pub(crate) label: String,
    /// The bars.
    pub(crate) bars: Vec<Bar>,
}

/// Width of the labels of the groups.
const LABEL_WIDTH: u32 = 240;
/// Length of the scale as a multiple of the longest bar, so that the number fits after the bar.
const NUMBER_SHARE: f64 = 1.25;
/// Rows between groups.
const GAP_ROWS: f64 = 0.7;

/// Draws groups of horizontal bars that start at zero, each with its number.
pub(crate) fn bars(title: &str, unit: &str, groups: &[Group]) -> Result<String, Failure> {
    let all = || groups.iter().flat_map(|group| &group.bars);
    let longest = all().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let names = distinct(all().map(|bar| bar.series.as_str()));
    let legend_rows = names.len() as f64 + 1.0;
    // Rows are counted downwards. The legend is above all of them, so that it hides no bar.
    let mut rows = 0.0;
    let mut places = Vec::new();
    for group in groups {
        places.push(rows);
        rows += group.bars.len() as f64 + GAP_ROWS;
    }
    let marks = places.iter().zip(groups).map(|(top, group)| {
        let middle = -top - group.bars.len() as f64 / 2.0;
        (middle, group.label.clone())
    });
    let scale = Rows { rows: (-rows..legend_rows).into(), marks: marks.collect() };
    let height = FRAME_HEIGHT + pixels((rows + legend_rows) * f64::from(ROW_HEIGHT));
    let mut svg = String::new();
    {
        let area = canvas(&mut svg, height)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(format!("{title} ({unit}; shorter is better)"), ink(16))
            .margin(12)
            .x_label_area_size(28)
            .y_label_area_size(LABEL_WIDTH)
            .build_cartesian_2d(0.0..longest * NUMBER_SHARE, scale)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .x_labels(6)
            .x_label_formatter(&|x| rounded(*x))
            .label_style(ink(13))
            .bold_line_style(PALE)
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .draw()?;
        for (place, name) in names.iter().enumerate() {
            let colour = colour(place);
            let mut boxes = Vec::new();
            for (top, group) in places.iter().zip(groups) {
                for (row, bar) in group.bars.iter().enumerate().filter(|(_, bar)| bar.series == *name) {
                    let y = -top - row as f64;
                    boxes.push((y, bar));
                }
            }
            let bars = boxes
                .iter()
                .map(|(y, bar)| Rectangle::new([(0.0, y - 0.06), (bar.value, y - 0.94)], colour.filled()));
            chart
                .draw_series(bars)?
                .label(*name)
                .legend(move |(x, y)| Rectangle::new([(x, y - 6), (x + 12, y + 6)], colour.filled()));
            chart.draw_series(boxes.iter().map(|(y, bar)| {
                let deviation = bar.deviation.map_or(String::new(), |off| format!(" \u{b1}{}", number(off)));
                let style = ink(12).pos(Pos::new(HPos::Left, VPos::Center));
                let place = (bar.value + longest / 100.0, y - 0.5);
                Text::new(format!("{}{deviation}", number(bar.value)), place, style)
            }))?;
        }
        legend(&mut chart)?;
        area.present()?;
    }
    Ok(svg)
}

/// The rows of a bar chart, with the labels of its groups.
struct Rows {
    rows: RangedCoordf64,
    marks: Vec<(f64, String)>,
}

impl Ranged for Rows {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn range(&self) -> Range<f64> {
        self.rows.range()
    }

    fn map(&self, row: &f64, pixels: (i32, i32)) -> i32 {
        self.rows.map(row, pixels)
    }

    fn key_points<H: KeyPointHint>(&self, _most: H) -> Vec<f64> {
        self.marks.iter().map(|(middle, _)| *middle).collect()
    }
}

impl ValueFormatter<f64> for Rows {
    fn format_ext(&self, row: &f64) -> String {
        let found = self.marks.iter().find(|(middle, _)| middle == row);
        found.map_or(String::new(), |(_, label)| label.clone())
    }
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut distinct = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}

fn pixels(length: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few thousand at most")]
    let pixels = length.max(0.0).ceil() as u32;
    pixels
}

#[cfg(test)]
mod tests {
    #[test]
    fn bars_have_the_lengths_of_their_values_and_different_colours() {
        use super::super::canvas::WIDTH;
        use super::*;
        /// Returns the values of an attribute, in order.
        fn values<'a>(svg: &'a str, element: &str, attribute: &str) -> Vec<&'a str> {
            let start = format!("<{element} ");
            let tags = svg.split(&start).skip(1).filter_map(|rest| rest.split_once('>').map(|(tag, _)| tag));
            let name = format!("{attribute}=\"");
            tags.filter_map(|tag| tag.split_once(&name)?.1.split_once('"').map(|(value, _)| value)).collect()
        }

        fn groups(series: usize) -> Vec<Group> {
            let bar = |place: usize| Bar {
                series: format!("a kind with a name of some length, {place}"),
                value: 10.0 * (place + 1) as f64,
                deviation: Some(1.5),
            };
            vec![Group { label: "a < b".to_owned(), bars: (0..series).map(bar).collect() }]
        }

        let svg = bars("time", "ns", &groups(7)).unwrap();
        assert!(
            svg.contains("a &lt; b") && svg.contains("70.0 \u{b1}1.50") && svg.ends_with("</svg>\n"),
            "{svg}"
        );
        let fills = values(&svg, "rect", "fill");
        let mut colours: Vec<&str> = fills.iter().copied().filter(|fill| *fill != "#FFFFFF").collect();
        // Each bar has a colour, and so has its box in the legend.
        assert_eq!(colours.len(), 14, "{fills:?}");
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), 7, "{colours:?}");
        let widths: Vec<f64> =
            values(&svg, "rect", "width").iter().filter_map(|width| width.parse().ok()).collect();
        let longest = widths.iter().copied().filter(|width| *width < f64::from(WIDTH)).fold(0.0, f64::max);
        let has = |length: f64| widths.iter().any(|width| (width - length).abs() <= 1.5);
        assert!((1..=7).all(|share| has(longest * f64::from(share) / 7.0)), "{widths:?}");
        assert!(fills.first().is_some_and(|first| *first == "#FFFFFF"), "a ground of its own");
    }
}
