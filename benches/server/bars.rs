//! Draws bar charts as SVG. Each bar has its name on the left and its number on the right, so a chart has no legend and
//! no scale.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::canvas::{COLOURS, GREY, INK, MARGIN, TITLE_HEIGHT, bold, canvas, ink, write};
use super::failure::Failure;
use super::text::{two_digits, wrapped};

/// One bar.
pub(crate) struct Bar {
    /// Its name.
    pub(crate) name: String,
    /// Its length.
    pub(crate) value: f64,
    /// Whether it is a bar of everbloom, which has another colour.
    pub(crate) is_own: bool,
}

/// Bars with a heading.
pub(crate) struct Group {
    /// The heading above the bars; empty if there is only one group.
    pub(crate) heading: String,
    /// The bars.
    pub(crate) bars: Vec<Bar>,
}

/// A chart of horizontal bars.
pub(crate) struct BarChart<'a> {
    /// The title.
    pub(crate) title: &'a str,
    /// The quantity and its unit, below the title.
    pub(crate) unit: &'a str,
    /// The bars.
    pub(crate) groups: Vec<Group>,
    /// The machine and the date of the measurement, below the bars.
    pub(crate) caption: String,
}

/// Horizontal position at which bars begin; their names are to the left.
const START: i32 = 280;
/// Length of the longest bar; its number is to the right.
const LONGEST: f64 = 400.0;
const BAR_HEIGHT: i32 = 18;
const ROW_HEIGHT: i32 = 24;
const GAP_HEIGHT: i32 = 10;
const CAPTION_LINE_HEIGHT: i32 = 16;
/// Characters of the longest line of a caption.
const CAPTION_CHARACTERS: usize = 100;

/// Draws the chart.
pub(crate) fn bars(chart: &BarChart<'_>) -> Result<String, Failure> {
    let rows = |group: &Group| group.bars.len() + usize::from(!group.heading.is_empty());
    let caption = wrapped(&chart.caption, CAPTION_CHARACTERS);
    let row_count = i32::try_from(chart.groups.iter().map(rows).sum::<usize>())?;
    let (group_count, line_count) = (i32::try_from(chart.groups.len())?, i32::try_from(caption.len())?);
    let height = TITLE_HEIGHT
        + row_count * ROW_HEIGHT
        + group_count * GAP_HEIGHT
        + line_count * CAPTION_LINE_HEIGHT
        + MARGIN;
    let all = chart.groups.iter().flat_map(|group| &group.bars);
    let highest = all.map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let mut svg = String::new();
    {
        let area = canvas(&mut svg, height, chart.title, chart.unit)?;
        let mut top = TITLE_HEIGHT;
        for group in &chart.groups {
            if !group.heading.is_empty() {
                write(&area, &group.heading, (MARGIN, top + BAR_HEIGHT / 2), bold(16))?;
                top += ROW_HEIGHT;
            }
            for bar in &group.bars {
                #[expect(clippy::cast_possible_truncation, reason = "at most the longest bar")]
                let end = START + (bar.value / highest * LONGEST).round() as i32;
                let colour = if bar.is_own { COLOURS[0] } else { GREY };
                area.draw(&Rectangle::new([(START, top), (end, top + BAR_HEIGHT)], colour.filled()))?;
                let middle = top + BAR_HEIGHT / 2;
                let name = ink(16).pos(Pos::new(HPos::Right, VPos::Center));
                write(&area, &bar.name, (START - 8, middle), name)?;
                write(&area, &two_digits(bar.value), (end + 7, middle), ink(16))?;
                top += ROW_HEIGHT;
            }
            let ends = [(START, top - ROW_HEIGHT * i32::try_from(group.bars.len())? - 3), (START, top - 3)];
            area.draw(&PathElement::new(ends, INK))?;
            top += GAP_HEIGHT;
        }
        for line in &caption {
            write(&area, line, (MARGIN, top + CAPTION_LINE_HEIGHT / 2), ink(15))?;
            top += CAPTION_LINE_HEIGHT;
        }
        area.present()?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    #[test]
    fn bars_are_as_long_as_their_values() {
        use super::*;
        let bar = |place: u32| Bar { name: "a < b".to_owned(), value: f64::from(place), is_own: place == 1 };
        let groups = vec![Group { heading: "heading".to_owned(), bars: [1, 2, 4].map(bar).into() }];
        let chart = BarChart { title: "time", unit: "ns", groups, caption: "machine, date".to_owned() };
        let svg = bars(&chart).unwrap();
        for text in ["a &lt; b", "heading", "machine, date", "2.0", "</svg>\n"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        let value = |tag: &str, name: &str| {
            let (_, rest) = tag.split_once(&format!("{name}=\"")).unwrap();
            rest.split_once('"').unwrap().0.to_owned()
        };
        let rectangles = svg.split("<rect ").skip(2);
        let found: Vec<_> = rectangles.map(|tag| (value(tag, "width"), value(tag, "fill"))).collect();
        let expected = [("100", "#0072B2"), ("200", "#969696"), ("400", "#969696")];
        assert_eq!(found, expected.map(|(width, fill)| (width.to_owned(), fill.to_owned())));
    }
}
