//! The common parts of all charts: a title on the left, a white background, which is legible on a dark page too, and
//! colours that most colour-blind people can distinguish.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::failure::Failure;

/// Width of every chart.
pub(crate) const WIDTH: u32 = 760;
/// Margin on each side of a chart.
pub(crate) const MARGIN: i32 = 14;
/// Height of the title with the line below it.
pub(crate) const TITLE_HEIGHT: i32 = 62;
/// Okabe and Ito, "Color Universal Design", 2008, without yellow, which is too pale for a line on white.
pub(crate) const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
];
/// The colour of text and axes.
pub(crate) const INK: RGBColor = RGBColor(34, 34, 34);
/// The colour of grid lines.
pub(crate) const PALE: RGBColor = RGBColor(225, 225, 225);
/// The colour of bars that are not everbloom's.
pub(crate) const GREY: RGBColor = RGBColor(150, 150, 150);

/// The area on which a chart is drawn.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Returns a white area with a title and, below it, the quantity and its unit.
pub(crate) fn canvas<'a>(
    svg: &'a mut String,
    height: i32,
    title: &str,
    unit: &str,
) -> Result<Area<'a>, Failure> {
    let area = SVGBackend::with_string(svg, (WIDTH, height.unsigned_abs())).into_drawing_area();
    area.fill(&WHITE)?;
    write(&area, title, (MARGIN, MARGIN + 8), bold(20))?;
    write(&area, unit, (MARGIN, MARGIN + 31), ink(16))?;
    Ok(area)
}

/// Writes a text. The given height is that of its middle.
pub(crate) fn write(
    area: &Area<'_>,
    text: &str,
    place: (i32, i32),
    style: TextStyle<'static>,
) -> Result<(), Failure> {
    Ok(area.draw(&Text::new(text.to_owned(), place, style))?)
}

/// Returns the style of text.
pub(crate) fn ink(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center))
}

/// Returns the style of headings.
pub(crate) fn bold(size: u32) -> TextStyle<'static> {
    let font = ("sans-serif", size).into_font().style(FontStyle::Bold);
    font.color(&INK).pos(Pos::new(HPos::Left, VPos::Center))
}

/// Returns the colour of a line.
pub(crate) fn colour(place: usize) -> RGBColor {
    COLOURS.get(place % COLOURS.len()).copied().unwrap_or(INK)
}
