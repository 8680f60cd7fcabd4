//! Markers and dashes, by which lines are told apart without colours.

use std::fmt::Write as _;

/// So many shapes there are; further lines begin again, in another colour.
pub const SHAPES: usize = 8;

/// Half of a marker's width.
const SIZE: f64 = 4.0;

/// Dashes, by the number of the shape.
const DASHES: [&str; SHAPES] = [
    "",
    "7 3",
    "2 3",
    "9 3 2 3",
    "14 4",
    "4 3",
    "9 3 2 3 2 3",
    "1 4",
];

/// The attribute for a line's dashes; empty for a solid one.
#[must_use]
pub fn dash(shape: usize) -> String {
    match DASHES[shape % SHAPES] {
        "" => String::new(),
        dash => format!(" stroke-dasharray=\"{dash}\""),
    }
}

/// Draws a marker; `tip` is shown by readers when they are pointed at it.
pub fn draw(svg: &mut String, class: &str, shape: usize, x: f64, y: f64, tip: Option<&str>) {
    let path = path(shape, x, y);
    // Writing to a string cannot fail.
    let _ = match tip {
        Some(tip) => writeln!(
            svg,
            "<path class=\"{class}\" d=\"{path}\"><title>{}</title></path>",
            super::escape(tip)
        ),
        None => writeln!(svg, "<path class=\"{class}\" d=\"{path}\"/>"),
    };
}

fn path(shape: usize, x: f64, y: f64) -> String {
    let polygon = |points: &[(f64, f64)]| {
        let mut path = String::new();
        for (index, (right, down)) in points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let _ = write!(
                path,
                "{command}{:.1} {:.1}",
                x + right * SIZE,
                y + down * SIZE
            );
        }
        path + "Z"
    };
    match shape % SHAPES {
        0 => format!(
            "M{:.1} {y:.1}a{SIZE} {SIZE} 0 1 0 {d} 0a{SIZE} {SIZE} 0 1 0 -{d} 0Z",
            x - SIZE,
            d = 2.0 * SIZE
        ),
        1 => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        2 => polygon(&[(0.0, -1.2), (1.15, 0.85), (-1.15, 0.85)]),
        3 => polygon(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
        4 => polygon(&[(0.0, 1.2), (1.15, -0.85), (-1.15, -0.85)]),
        5 => polygon(&[
            (-0.4, -1.2),
            (0.4, -1.2),
            (0.4, -0.4),
            (1.2, -0.4),
            (1.2, 0.4),
            (0.4, 0.4),
            (0.4, 1.2),
            (-0.4, 1.2),
            (-0.4, 0.4),
            (-1.2, 0.4),
            (-1.2, -0.4),
            (-0.4, -0.4),
        ]),
        6 => polygon(&[
            (0.0, -1.3),
            (0.35, -0.45),
            (1.25, -0.4),
            (0.55, 0.2),
            (0.8, 1.05),
            (0.0, 0.55),
            (-0.8, 1.05),
            (-0.55, 0.2),
            (-1.25, -0.4),
            (-0.35, -0.45),
        ]),
        _ => polygon(&[
            (-0.6, -1.1),
            (0.6, -1.1),
            (1.2, 0.0),
            (0.6, 1.1),
            (-0.6, 1.1),
            (-1.2, 0.0),
        ]),
    }
}
