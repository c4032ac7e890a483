//! Common parts of charts: a white background, so that they are equally legible on dark and light pages, and colours
//! that most colour-blind people can distinguish.

use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
use plotters::prelude::*;

use super::failure::Failure;

/// Width of every chart.
pub(crate) const WIDTH: u32 = 760;
/// Height of a bar and of a line of the legend.
pub(crate) const ROW_HEIGHT: u32 = 19;
/// Height of title and scale, above and below the plot.
pub(crate) const FRAME_HEIGHT: u32 = 92;
/// Okabe and Ito, "Color Universal Design", 2008, without yellow, which is too pale for a line on white.
pub(crate) const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(60, 60, 60),
];
/// Colour of text and axes.
pub(crate) const INK: RGBColor = RGBColor(34, 34, 34);
/// Colour of the lines of a scale across the plot.
pub(crate) const PALE: RGBColor = RGBColor(225, 225, 225);

/// Returns an empty picture with a white background.
pub(crate) fn canvas(svg: &mut String, height: u32) -> Result<DrawingArea<SVGBackend<'_>, Shift>, Failure> {
    let area = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    Ok(area)
}

/// Draws the legend in a corner, above everything else.
pub(crate) fn legend<'a, X, Y>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
) -> Result<(), Failure>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .margin(4)
        .legend_area_size(24)
        .label_font(ink(13))
        .background_style(WHITE)
        .draw()?;
    Ok(())
}

pub(crate) fn ink(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// Returns the colour of a place; after the last colour they are repeated in paler tones.
pub(crate) fn colour(place: usize) -> RGBAColor {
    let strength = 1.0 / (1 + place / COLOURS.len()) as f64;
    COLOURS.get(place % COLOURS.len()).unwrap_or(&INK).mix(strength)
}
