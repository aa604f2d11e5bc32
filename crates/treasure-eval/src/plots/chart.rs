//! One kind of chart for every figure: lines with markers, error bars and bands.

use plotters::{
    coord::{
        Shift,
        ranged1d::{AsRangedCoord, ValueFormatter},
    },
    prelude::*,
};

use super::Figure;
use crate::{Error, Result, report::escape};

/// The code of text and axes; the style sheet turns it into a colour.
const INK: RGBColor = RGBColor(0, 0, 1);
/// The code of grid lines.
const GRID: RGBColor = RGBColor(0, 0, 2);
/// The plot in pixels; the legend stands below it, so that a figure is legible in a narrow column.
const PLOT: (u32, u32) = (470, 380);
/// Where the legend's text begins, the room a character takes, and the height of a row.
const LEGEND: (u32, u32, u32) = (42, 9, 22);
/// How many colours and markers there are.
const STYLES: usize = 10;
/// Dash and gap of each series in pixels; the first is solid.
const DASHES: [(i32, i32); 4] = [(1, 0), (8, 4), (2, 3), (12, 3)];

fn series_code(series: usize) -> RGBColor {
    RGBColor(0, 0, 0xa0 + (series % STYLES) as u8)
}

/// A point with an optional interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Across.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// The ends of an error bar.
    pub interval: Option<(f64, f64)>,
    /// Whether its marker is an outline: it is not to be read against the others.
    pub hollow: bool,
}

impl Point {
    /// A plain point.
    pub fn at(x: f64, y: f64) -> Self {
        Self { x, y, interval: None, hollow: false }
    }
}

/// A series.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend; none leaves it out.
    pub label: Option<String>,
    /// Which colour, marker and dash.
    pub style: usize,
    /// Of so many points one has a marker; 0 for none at all.
    pub points_per_marker: usize,
    /// Its points, from left to right.
    pub points: Vec<Point>,
}

/// An area between two curves.
#[derive(Clone, Debug)]
pub struct Band {
    /// Which colour.
    pub style: usize,
    /// How much of it shows, from 0 to 1.
    pub opacity: f64,
    /// (x, low, high), from left to right.
    pub edges: Vec<(f64, f64, f64)>,
}

/// A chart to be drawn.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// For files and anchors.
    pub name: String,
    /// What it shows.
    pub caption: String,
    /// The horizontal axis.
    pub x_label: String,
    /// The vertical axis.
    pub y_label: String,
    /// Whether the horizontal axis is logarithmic.
    pub log_x: bool,
    /// Drawn below the lines.
    pub bands: Vec<Band>,
    /// The series.
    pub lines: Vec<Line>,
}

impl Chart {
    /// Draws it; nothing where there is no point.
    pub fn draw(&self) -> Result<Option<Figure>> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let ys = points()
            .flat_map(|p| {
                p.interval.map_or([p.y, p.y], |(lo, hi)| [lo, hi]).into_iter().chain([p.y])
            })
            .chain(self.bands.iter().flat_map(|b| b.edges.iter().flat_map(|e| [e.1, e.2])));
        let xs = points()
            .map(|p| p.x)
            .chain(self.bands.iter().flat_map(|b| b.edges.iter().map(|e| e.0)));
        let (Some(x), Some(y)) = (extent(xs), extent(ys)) else { return Ok(None) };
        let y_room = ((y.1 - y.0) * 0.06).max(1e-3);
        let y = y.0 - y_room..y.1 + y_room;
        let mut svg = String::new();
        let (width, height) = self.legend_size();
        let size = (PLOT.0.max(width), PLOT.1 + height);
        {
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            let (plot, legend) = root.split_vertically(PLOT.1);
            let drawn = if self.log_x {
                let low = x.0.max(1e-3);
                let range = low * 0.8..(x.1.max(low) * 1.25);
                self.draw_in(&plot, range.log_scale().base(2.0), y)
            } else {
                let room = ((x.1 - x.0) * 0.04).max(0.5);
                let (low, high) = (x.0 - room, x.1 + room);
                self.draw_in(&plot, low..high, y)
            };
            let shown = drawn
                .and_then(|()| self.draw_legend(&legend))
                .and_then(|()| root.present().map_err(|error| error.to_string()));
            shown.map_err(|message| Error::Figure { name: self.name.clone(), message })?;
        }
        let svg = accessible(&svg, &self.caption, size);
        Ok(Some(Figure { name: self.name.clone(), caption: self.caption.clone(), svg }))
    }

    /// Wide enough for the longest name, a row for each.
    fn legend_size(&self) -> (u32, u32) {
        let names: Vec<_> = self.lines.iter().filter_map(|line| line.label.as_ref()).collect();
        let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        (LEGEND.0 + LEGEND.1 * longest as u32, LEGEND.2 * names.len() as u32 + 8)
    }

    fn draw_in<X>(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        x: X,
        y: std::ops::Range<f64>,
    ) -> Result<(), String>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
    {
        let text = |error: DrawingAreaErrorKind<_>| format!("{error}");
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .x_label_area_size(44)
            .y_label_area_size(62)
            .build_cartesian_2d(x, y)
            .map_err(text)?;
        chart
            .configure_mesh()
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .axis_style(INK)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .label_style(("sans-serif", 16).into_font().color(&INK))
            .axis_desc_style(("sans-serif", 17).into_font().color(&INK))
            .x_labels(6)
            .y_labels(7)
            .x_label_formatter(&|x| short(*x))
            .y_label_formatter(&|y| short(*y))
            .draw()
            .map_err(text)?;
        for band in &self.bands {
            let there = band.edges.iter().map(|&(x, low, _)| (x, low));
            let back = band.edges.iter().rev().map(|&(x, _, high)| (x, high));
            let fill = series_code(band.style).mix(band.opacity).filled();
            let outline: Vec<_> = there.chain(back).collect();
            chart.draw_series([Polygon::new(outline, fill)]).map_err(text)?;
        }
        for line in &self.lines {
            let code = series_code(line.style);
            let points: Vec<(f64, f64)> = line.points.iter().map(|p| (p.x, p.y)).collect();
            let stroke = code.stroke_width(2);
            match DASHES[line.style % DASHES.len()] {
                (_, 0) => {
                    _ = chart.draw_series(LineSeries::new(points.clone(), stroke)).map_err(text)?
                }
                (dash, gap) => {
                    let dashed = DashedLineSeries::new(points.clone(), dash, gap, stroke);
                    chart.draw_series(dashed).map_err(text)?;
                }
            }
            for point in &line.points {
                if let Some((low, high)) = point.interval {
                    let bar =
                        PathElement::new([(point.x, low), (point.x, high)], code.stroke_width(1));
                    chart.draw_series([bar]).map_err(text)?;
                }
            }
            if line.points_per_marker > 0 {
                // Series that lie on each other show their markers in turn.
                let first = line.style % line.points_per_marker;
                for point in line.points.iter().skip(first).step_by(line.points_per_marker) {
                    let at = EmptyElement::at((point.x, point.y));
                    let mut outline = marker(line.style);
                    if point.hollow {
                        outline.push(outline[0]);
                        let mark = PathElement::new(outline, code.stroke_width(2));
                        chart.draw_series([at + mark]).map_err(text)?;
                    } else {
                        let mark = Polygon::new(outline, code.filled());
                        chart.draw_series([at + mark]).map_err(text)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn draw_legend(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), String> {
        let text = |error: DrawingAreaErrorKind<_>| format!("{error}");
        let style = ("sans-serif", 16).into_font().color(&INK);
        let labelled = self.lines.iter().filter_map(|line| Some((line, line.label.as_ref()?)));
        for (row, (line, label)) in labelled.enumerate() {
            let y = 10 + LEGEND.2 as i32 * row as i32;
            let code = series_code(line.style);
            let (dash, gap) = DASHES[line.style % DASHES.len()];
            let (mut from, step) = (4, if gap == 0 { 30 } else { dash });
            while from < 34 {
                let to = (from + step).min(34);
                let piece = PathElement::new([(from, y), (to, y)], code.stroke_width(2));
                area.draw(&piece).map_err(text)?;
                from = to + gap.max(1);
            }
            if line.points_per_marker > 0 {
                let mark = Polygon::new(marker(line.style), code.filled());
                area.draw(&(EmptyElement::at((19, y)) + mark)).map_err(text)?;
            }
            let at = (LEGEND.0 as i32, y - 7);
            area.draw(&Text::new(label.as_str(), at, style.clone())).map_err(text)?;
        }
        Ok(())
    }
}

/// The outline of a marker around (0, 0), in pixels: disc, square, triangle, diamond, plus, and so on.
#[rustfmt::skip]
fn marker(style: usize) -> Vec<(i32, i32)> {
    let outline: &[(i32, i32)] = match style % STYLES {
        0 => &[(5, 0), (4, 3), (3, 4), (0, 5), (-3, 4), (-4, 3), (-5, 0), (-4, -3), (-3, -4), (0, -5), (3, -4), (4, -3)],
        1 => &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
        2 => &[(0, -6), (6, 5), (-6, 5)],
        3 => &[(0, -6), (6, 0), (0, 6), (-6, 0)],
        4 => &[(-2, -6), (2, -6), (2, -2), (6, -2), (6, 2), (2, 2), (2, 6), (-2, 6), (-2, 2), (-6, 2), (-6, -2), (-2, -2)],
        5 => &[(0, 6), (6, -5), (-6, -5)],
        6 => &[(-6, -2), (6, -2), (6, 2), (-6, 2)],
        7 => &[(-5, -5), (5, -5), (-5, 5), (5, 5)],
        8 => &[(-2, -6), (2, -6), (2, 6), (-2, 6)],
        _ => &[(-5, -5), (-5, 5), (5, -5), (5, 5)],
    };
    outline.to_vec()
}

/// The lowest and highest finite number.
fn extent(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    numbers.filter(|number| number.is_finite()).fold(None, |extent, number| {
        let (low, high) = extent.unwrap_or((number, number));
        Some((f64::min(low, number), f64::max(high, number)))
    })
}

/// A number for an axis.
fn short(number: f64) -> String {
    let size = number.abs();
    match size {
        _ if size >= 10_000.0 => format!("{:.0}k", number / 1000.0),
        _ if size >= 100.0 || number == number.round() => format!("{number:.0}"),
        _ if size >= 1.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// Lets the figure scale with the page, and tells screen readers what it is.
fn accessible(svg: &str, caption: &str, (width, height): (u32, u32)) -> String {
    let view = format!("viewBox=\"0 0 {width} {height}\" ");
    // The SVG backend escapes what it draws itself.
    let label = escape(caption);
    let head = format!("<svg role=\"img\" aria-label=\"{label}\" {view}");
    let body = svg.find("<svg ").map_or(svg, |start| &svg[start + 5..]);
    let body = body.replacen(&view, "", 1);
    format!("{head}{body}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let point = |x, y| Point { interval: Some((y - 0.5, y + 0.5)), ..Point::at(x, y) };
        Chart {
            name: "test".into(),
            caption: "a < b & \"c\"".into(),
            x_label: "NFE <total>".into(),
            log_x: true,
            lines: vec![
                Line {
                    label: Some("one & only".into()),
                    style: 0,
                    points_per_marker: 1,
                    points: vec![point(1.0, 2.0), point(10.0, 3.0)],
                },
                Line {
                    label: Some("two".into()),
                    style: 1,
                    points_per_marker: 1,
                    points: vec![point(2.0, 1.0)],
                },
            ],
            ..Chart::default()
        }
    }

    #[test]
    fn labels_are_escaped_once() {
        let svg = chart().draw().unwrap().unwrap().svg;
        assert!(svg.contains("NFE &lt;total&gt;"), "{svg}");
        assert!(svg.contains("one &amp; only"));
        assert!(!svg.contains("&amp;amp;") && !svg.contains("&amp;lt;"));
    }

    #[test]
    fn every_colour_is_a_code_that_the_style_sheet_maps() {
        let figure = chart().draw().unwrap().unwrap();
        for attribute in ["fill=\"", "stroke=\""] {
            for piece in figure.svg.split(attribute).skip(1) {
                let code = piece.split('"').next().unwrap();
                let mapped = super::super::STYLE.contains(&format!("{attribute}{code}\""));
                assert!(mapped || code == "none", "{attribute}{code}");
            }
        }
        assert!(figure.standalone().contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn ten_series_look_different_without_colour() {
        let looks: std::collections::BTreeSet<_> =
            (0..STYLES).map(|style| (marker(style), DASHES[style % DASHES.len()])).collect();
        assert_eq!(looks.len(), 10);
        let ten = (0..STYLES).map(|style| Line { style, ..chart().lines[0].clone() });
        let svg = Chart { lines: ten.collect(), ..chart() }.draw().unwrap().unwrap().svg;
        for style in 0..STYLES {
            let code = format!("fill=\"#0000{:02X}\"", 0xa0 + style);
            assert!(svg.contains(&code) && super::super::STYLE.contains(&code), "{code}");
        }
    }

    #[test]
    fn the_legend_has_room_for_its_longest_name() {
        let width = |name: &str| {
            let mut chart = chart();
            chart.lines[0].label = Some(name.into());
            let svg = chart.draw().unwrap().unwrap().svg;
            let view = svg.split("viewBox=\"0 0 ").nth(1).unwrap();
            view.split(' ').next().unwrap().parse::<u32>().unwrap()
        };
        assert_eq!(width("short"), 470);
        let long = "best of N, same reward calls, and some more of the same";
        assert_eq!(width(long), 42 + 9 * long.len() as u32);
    }

    #[test]
    fn markers_can_be_sparse() {
        let marks = |points_per_marker| {
            let mut chart = chart();
            chart.lines.truncate(1);
            let points = (0..20).map(|x| Point::at(f64::from(x + 1), 1.0));
            chart.lines[0] =
                Line { points_per_marker, points: points.collect(), ..chart.lines[0].clone() };
            chart.draw().unwrap().unwrap().svg.matches("<polygon").count()
        };
        // One more stands in the legend.
        assert_eq!([marks(0), marks(1), marks(8)], [0, 21, 4]);
    }

    #[test]
    fn a_hollow_point_is_an_outline() {
        let mut chart = chart();
        let filled = chart.draw().unwrap().unwrap().svg.matches("<polygon").count();
        chart.lines[0].points[1].hollow = true;
        let svg = chart.draw().unwrap().unwrap().svg;
        assert_eq!(svg.matches("<polygon").count(), filled - 1);
    }

    #[test]
    fn a_chart_without_points_is_no_figure_and_a_single_point_is_one() {
        assert!(Chart::default().draw().unwrap().is_none());
        let mut one = chart();
        one.lines.truncate(1);
        one.lines[0].points.truncate(1);
        assert!(one.draw().unwrap().is_some());
    }
}
