//! Bar charts in plain SVG, legible on a light and on a dark page.

use std::fmt::Write as _;

/// One bar.
pub(crate) struct Bar {
    /// Whose it is.
    pub(crate) series: String,
    /// Its length.
    pub(crate) value: f64,
    /// What a typical round is off by.
    pub(crate) deviation: f64,
}

/// Bars that are to be compared.
pub(crate) struct Group {
    /// What they have in common.
    pub(crate) label: String,
    /// The bars.
    pub(crate) bars: Vec<Bar>,
}

const WIDTH: f64 = 760.0;
const LABEL_WIDTH: f64 = 220.0;
/// Room for the number behind the longest bar.
const NUMBER_WIDTH: f64 = 90.0;
const BAR_HEIGHT: f64 = 15.0;
const GROUP_GAP: f64 = 12.0;
const HEAD_HEIGHT: f64 = 62.0;
/// Told apart by most colour-blind people too (Okabe and Ito, "Color Universal Design", 2008).
const COLOURS: [&str; 7] = ["#0072b2", "#e69f00", "#009e73", "#999999", "#cc79a7", "#56b4e9", "#d55e00"];

/// A chart of groups of horizontal bars that begin at zero, each with its number.
pub(crate) fn bars(title: &str, unit: &str, groups: &[Group]) -> String {
    let all = || groups.iter().flat_map(|group| &group.bars);
    let longest = all().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let mut names: Vec<&str> = Vec::new();
    for bar in all() {
        if !names.contains(&bar.series.as_str()) {
            names.push(&bar.series);
        }
    }
    let colour = |series: &str| {
        let place = names.iter().position(|name| *name == series).unwrap_or(0);
        COLOURS.get(place % COLOURS.len()).copied().unwrap_or("black")
    };
    let height = HEAD_HEIGHT
        + groups.iter().map(|group| group.bars.len() as f64 * BAR_HEIGHT + GROUP_GAP).sum::<f64>();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n<title>{}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"10\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{}</text>\n",
        escaped(title),
        escaped(&format!("{title} ({unit}; shorter is better)")),
    );
    let mut x = 10.0;
    for name in &names {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"35\" width=\"11\" height=\"11\" fill=\"{}\"/><text x=\"{}\" y=\"45\">{}</text>",
            colour(name),
            x + 16.0,
            escaped(name)
        );
        x += 34.0 + 7.0 * name.len() as f64;
    }
    let mut y = HEAD_HEIGHT;
    for group in groups {
        let middle = y + group.bars.len() as f64 * BAR_HEIGHT / 2.0 + 4.0;
        let label = escaped(&group.label);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{label}</text>",
            LABEL_WIDTH - 8.0
        );
        for bar in &group.bars {
            let length = bar.value / longest * (WIDTH - LABEL_WIDTH - NUMBER_WIDTH);
            let _ = writeln!(
                svg,
                "<rect x=\"{LABEL_WIDTH}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"{:.1}\" fill=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\">{} &#177;{}</text>",
                y + 1.0,
                BAR_HEIGHT - 2.0,
                colour(&bar.series),
                LABEL_WIDTH + length + 5.0,
                y + BAR_HEIGHT - 4.0,
                number(bar.value),
                number(bar.deviation),
            );
            y += BAR_HEIGHT;
        }
        y += GROUP_GAP;
    }
    svg + "</svg>\n"
}

/// A number with about three digits.
pub(crate) fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "-".to_owned(),
        value if value >= 99.5 => format!("{value:.0}"),
        value if value >= 9.95 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    #[test]
    fn bars_are_as_long_as_their_values() {
        use super::*;
        let bar = |series: &str, value| Bar { series: series.to_owned(), value, deviation: 1.0 };
        let groups = [Group { label: "a < b".to_owned(), bars: vec![bar("one", 50.0), bar("two", 100.0)] }];
        let svg = bars("time", "ns", &groups);
        assert!(svg.contains("width=\"225.0\"") && svg.contains("width=\"450.0\""), "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains("100 &#177;1.00") && svg.ends_with("</svg>\n"));
        assert!(svg.contains(COLOURS[0]) && svg.contains(COLOURS[1]) && !svg.contains(COLOURS[2]));
    }
}
