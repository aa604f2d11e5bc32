//! Figures as SVG, readable in black and white, in light and in dark.
//!
//! Series differ by marker and dash as well as by colour. Colours are drawn as fixed codes that a style
//! sheet maps to light or dark ones, so that the same figure serves a page and a file of its own.

mod chart;
mod figures;

pub use chart::{Band, Chart, Line, Point};
pub use figures::{beam_width, branching, compared, curves, trajectories, variation};

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
    /// The SVG as a file of its own, with its style inside.
    pub fn standalone(&self) -> String {
        match self.svg.find('>') {
            Some(end) => {
                format!("{}<style>{STYLE}</style>{}", &self.svg[..=end], &self.svg[end + 1..])
            }
            None => self.svg.clone(),
        }
    }
}

/// Maps the codes of a figure to colours for light and dark. The series colours keep apart for people
/// who see few colours (after Okabe and Ito, 2008).
pub const STYLE: &str = include_str!("plots/style.css");
