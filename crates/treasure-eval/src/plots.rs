//! Figures as SVG, readable in black and white, in light and in dark.
//!
//! Series differ by marker and dash as well as by colour. Colours are drawn as fixed codes that a style
//! sheet maps to light or dark ones, so that the same figure serves a page and a file of its own.

mod chart;
mod figures;

pub use chart::{Band, Chart, Line, Point};
pub use figures::{beam_width, branching, compared, curves, leading, trajectories, variation};

/// A finished figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// A name for files and anchors.
    pub name: String,
    /// What it shows.
    pub caption: String,
    /// The SVG element, to be put into a page that has [`STYLE`].
    pub svg: String,
}

impl Figure {
    /// The SVG as a file of its own: its colours are those of light pages, for programs that know no style
    /// sheets, and a style sheet inside turns them dark where the page is.
    pub fn standalone(&self) -> String {
        let Some(end) = self.svg.find('>') else { return self.svg.clone() };
        let mut out =
            format!("{}<style>{STYLE}</style>{}", &self.svg[..=end], &self.svg[end + 1..]);
        for (code, light) in light() {
            out = out.replace(&format!("\"{code}\""), &format!("\"{light}\""));
        }
        out
    }
}

/// Every code and the colour it stands for on a light page, as [`STYLE`] says.
fn light() -> impl Iterator<Item = (String, &'static str)> {
    let colour = |name: &str| {
        let name = format!("--figure-{name}:");
        let from = STYLE.find(&name).map_or(STYLE.len(), |at| at + name.len());
        STYLE[from..].split(';').next().unwrap_or_default()
    };
    let series = (0..10).map(|i| (format!("#0000A{i}"), i.to_string()));
    let ink =
        [("#000001", "ink"), ("#000002", "grid")].map(|(code, name)| (code.into(), name.into()));
    ink.into_iter().chain(series).map(move |(code, name): (String, String)| (code, colour(&name)))
}

/// Maps the codes of a figure to colours for light and dark. The series colours keep apart for people
/// who see few colours (after Okabe and Ito, 2008).
pub const STYLE: &str = include_str!("plots/style.css");
