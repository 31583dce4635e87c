//! Pictures of rows: a panel for each case and way (and pattern, where there are many), a line for
//! what else differs.
//!
//! Text in PNG wants a font; one comes with the program, so that no machine needs any.

mod draw;
mod panel;

use std::path::Path;

use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::prelude::IntoDrawingArea;
use plotters::style::FontStyle;

use crate::{Row, SuiteError};
use panel::Panel;

/// What text is set in.
const FONT: &str = "sans-serif";
/// Size of a panel in pixels.
const PANEL: (u32, u32) = (560, 400);
/// Panels side by side.
const ACROSS: usize = 2;
/// Panels of a picture, at most.
const PANELS_MAX: usize = 64;

/// Draws rows into a file, whose name ends in `.svg` or `.png`.
///
/// # Errors
/// [`SuiteError::Asked`] when there is nothing to draw, too much, or the name ends otherwise;
/// [`SuiteError::Plot`].
pub fn plot(rows: &[Row], out: &Path) -> Result<(), SuiteError> {
    let panels = Panel::all(rows);
    if panels.is_empty() || panels.len() > PANELS_MAX {
        let asked = format!(
            "{} rows make {} pictures: 1 to {PANELS_MAX} fit into a file",
            rows.len(),
            panels.len()
        );
        return Err(SuiteError::Asked(asked));
    }
    let across = panels.len().min(ACROSS);
    let down = panels.len().div_ceil(across);
    let size = (PANEL.0 * across as u32, PANEL.1 * down as u32);
    let bytes = match out.extension().and_then(|e| e.to_str()) {
        Some("svg") => svg(&panels, (down, across), size)?.into_bytes(),
        Some("png") => png(&panels, (down, across), size)?,
        _ => {
            return Err(SuiteError::Asked(format!(
                "{} ends neither in .svg nor in .png",
                out.display()
            )));
        }
    };
    std::fs::write(out, bytes).map_err(SuiteError::local("cannot write", out))
}

fn svg(panels: &[Panel], grid: (usize, usize), size: (u32, u32)) -> Result<String, SuiteError> {
    font()?;
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw::panels(&root, panels, grid).map_err(|e| SuiteError::Plot(e.to_string()))?;
    }
    Ok(text)
}

fn png(panels: &[Panel], grid: (usize, usize), size: (u32, u32)) -> Result<Vec<u8>, SuiteError> {
    font()?;
    let mut pixels = vec![0; size.0 as usize * size.1 as usize * 3];
    {
        let root = BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area();
        draw::panels(&root, panels, grid).map_err(|e| SuiteError::Plot(e.to_string()))?;
    }
    let failed = |e: png::EncodingError| SuiteError::Plot(e.to_string());
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, size.0, size.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(bytes)
}

fn font() -> Result<(), SuiteError> {
    let font = epaint_default_fonts::UBUNTU_LIGHT;
    plotters::style::register_font(FONT, FontStyle::Normal, font)
        .map_err(|_| SuiteError::Plot("the font that comes with the program is damaged".into()))
}
