//! Draws panels with any backend.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::FONT;
use super::panel::{Axis, Panel, size};

type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Above this ratio of the most to the least the rate is drawn in powers of ten.
const DECADES: f64 = 50.0;

pub(super) fn panels<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    panels: &[Panel],
    grid: (usize, usize),
) -> Drawn<B> {
    root.fill(&WHITE)?;
    for (area, one) in root.split_evenly(grid).iter().zip(panels) {
        panel(area, one)?;
    }
    root.present()
}

/// How rates are laid out.
struct Scale {
    logarithmic: bool,
    from: f64,
    to: f64,
}

impl Scale {
    fn of(panel: &Panel) -> Scale {
        let values = panel.lines.iter().flat_map(|l| &l.1).map(|p| p.1);
        let most = values.clone().fold(0.0, f64::max).max(1e-3);
        let least = values.fold(most, f64::min).max(1e-6);
        if most / least > DECADES {
            Scale {
                logarithmic: true,
                from: least.log10().floor(),
                to: most.log10().ceil(),
            }
        } else {
            Scale {
                logarithmic: false,
                from: 0.0,
                to: most * 1.05,
            }
        }
    }

    fn place(&self, value: f64) -> f64 {
        if self.logarithmic {
            value.max(1e-6).log10()
        } else {
            value
        }
    }

    fn label(&self, place: f64) -> String {
        if !self.logarithmic {
            return format!("{place:.0}");
        }
        if (place - place.round()).abs() > 0.01 {
            return String::new();
        }
        let value = 10_f64.powf(place.round());
        if value < 1.0 {
            format!("{value}")
        } else {
            format!("{value:.0}")
        }
    }
}

fn panel<B: DrawingBackend>(area: &DrawingArea<B, Shift>, panel: &Panel) -> Drawn<B> {
    let scale = Scale::of(panel);
    let axis = panel.axis;
    let xs = panel.lines.iter().flat_map(|l| &l.1);
    let xs = xs.map(|p| along(axis, p.0));
    let first = xs.clone().fold(f64::INFINITY, f64::min) - 0.25;
    let last = xs.fold(f64::NEG_INFINITY, f64::max) + 0.25;
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, (FONT, 18))
        .margin(10)
        .x_label_area_size(42)
        .y_label_area_size(64)
        .build_cartesian_2d(first..last, scale.from..scale.to)?;
    chart
        .configure_mesh()
        .x_desc(match axis {
            Axis::Record => "record",
            Axis::Servers => "servers",
            Axis::Clients => "clients",
        })
        .y_desc(panel.unit)
        .x_labels(16)
        .x_label_formatter(&|x| label(axis, *x))
        .y_label_formatter(&|y| scale.label(*y))
        .label_style((FONT, 12))
        .axis_desc_style((FONT, 14))
        .light_line_style(WHITE)
        .draw()?;
    for (i, (name, points)) in panel.lines.iter().enumerate() {
        let colour = Palette99::pick(i).to_rgba();
        let places: Vec<(f64, f64)> = points
            .iter()
            .map(|(x, y)| (along(axis, *x), scale.place(*y)))
            .collect();
        chart
            .draw_series(LineSeries::new(places.clone(), colour.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        let dots = places
            .into_iter()
            .map(|at| Circle::new(at, 3, colour.filled()));
        chart.draw_series(dots)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font((FONT, 12))
        .draw()
}

/// The place of a value: sizes double from point to point, so theirs is the logarithm.
fn along(axis: Axis, value: f64) -> f64 {
    match axis {
        Axis::Record => value.max(1.0).log2(),
        Axis::Servers | Axis::Clients => value,
    }
}

/// The label of a place: whole numbers and whole powers of two; nothing between.
fn label(axis: Axis, place: f64) -> String {
    if (place - place.round()).abs() > 0.01 {
        return String::new();
    }
    match axis {
        Axis::Record => size(2_f64.powf(place.round())),
        Axis::Servers | Axis::Clients => format!("{place:.0}"),
    }
}
