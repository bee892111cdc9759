//! The recorded picture of the visible page, in bands of rows: a band that has not changed is neither painted nor encoded again.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use cairo::{Context, ImageSurface, RectangleInt, Region, RegionOverlap};
use gtk::prelude::*;
use jpeg_encoder::EncodingError;
use kitfleet_host_protocol::HostError;
use webkit2gtk::WebView;

use crate::failure;
use crate::live::painting::{self, PIXEL, shrink, surface_of, whole};

const QUALITY: u8 = 70;

/// Rows of a band. Whole blocks of a JPEG, so that bands are encoded apart from each other.
const ROWS: usize = 4 * BLOCK;

/// Width and height of a block of a JPEG whose colours have half the resolution.
const BLOCK: usize = 16;

/// A grey as bright as black and white in the mean.
const COVER: [u8; PIXEL] = [0x80; PIXEL];

/// Space around a cover, in pixels.
const MARGIN: f64 = 2.0;

/// Markers of the segments of a JPEG that are read or written here.
const FRAME: u8 = 0xc0;
const RESTART: u8 = 0xd0;
const END: u8 = 0xd9;
const SCAN: u8 = 0xda;

/// One pixel for each CSS pixel. Clones share their bands.
#[derive(Clone, Default)]
pub struct BandedPicture {
    width: usize,
    height: usize,
    bands: Vec<Arc<Band>>,
}

struct Band {
    pixels: Vec<u8>,
    /// The band without covers, once it was encoded.
    jpeg: OnceLock<Vec<u8>>,
}

impl BandedPicture {
    /// Paints the bands that `area` touches, or all of them without an area. `draw` draws the view. Returns whether the picture has
    /// changed.
    pub fn repaint(
        &mut self,
        view: &WebView,
        area: Option<&Region>,
        draw: impl Fn(&Context),
    ) -> Result<bool, HostError> {
        let positive = |number: i32| usize::try_from(number).map_err(failure::engine);
        let signed = |number: usize| i32::try_from(number).map_err(failure::engine);
        let (width, height) = (positive(view.allocated_width())?, positive(view.allocated_height())?);
        let (scale, factor) = (view.scale_factor(), positive(view.scale_factor())?);
        let mut changed = (self.width, self.height) != (width, height);
        if changed {
            *self = Self { width, height, bands: Vec::new() };
        }
        let mut strip: Option<ImageSurface> = None;
        for (number, top) in (0..height).step_by(ROWS).enumerate() {
            let rows = ROWS.min(height - top);
            let place = RectangleInt::new(0, signed(top)?, view.allocated_width(), signed(rows)?);
            let is_kept = |area: &Region| area.contains_rectangle(&place) == RegionOverlap::Out;
            let kept = self.bands.get(number);
            if kept.is_some() && area.is_some_and(is_kept) {
                continue;
            }
            let surface = match &mut strip {
                Some(surface) => surface,
                None => strip.insert(surface_of(view.allocated_width() * scale, signed(ROWS)? * scale, scale)?),
            };
            {
                let context = Context::new(&*surface).map_err(failure::engine)?;
                context.rectangle(0.0, 0.0, f64::from(place.width()), f64::from(place.height()));
                context.clip();
                context.translate(0.0, -f64::from(place.y()));
                draw(&context);
            }
            surface.flush();
            let stride = positive(surface.stride())?;
            let data = surface.data().map_err(failure::engine)?;
            let (pixels, ..) = shrink(&data, stride, (width * factor, rows * factor), factor);
            if kept.is_some_and(|band| have_same_colours(&band.pixels, &pixels)) {
                continue;
            }
            changed = true;
            let band = Arc::new(Band { pixels, jpeg: OnceLock::new() });
            match self.bands.get_mut(number) {
                Some(kept) => *kept = band,
                None => self.bands.push(band),
            }
        }
        Ok(changed)
    }

    pub fn size(&self) -> (u32, u32) {
        let side = |length: usize| u32::try_from(length).unwrap_or_default();
        (side(self.width), side(self.height))
    }

    /// As JPEG, with a grey area at each cover: left, top, right and bottom in pixels.
    pub fn encode(&self, covers: &[[f64; 4]]) -> Result<Vec<u8>, EncodingError> {
        let covers: Vec<_> = covers.iter().map(|cover| self.covered(*cover)).collect();
        let mut jpeg = Vec::new();
        for (number, band) in self.bands.iter().enumerate() {
            let encoded = self.encode_band(number, band, &covers)?;
            let Some((header, scan)) = split(&encoded) else { continue };
            if number == 0 {
                jpeg.extend_from_slice(header);
                set_height(&mut jpeg, side(self.height));
            } else {
                jpeg.extend_from_slice(&[0xff, RESTART + u8::try_from((number - 1) % 8).unwrap_or_default()]);
            }
            jpeg.extend_from_slice(scan);
        }
        jpeg.extend_from_slice(&[0xff, END]);
        Ok(jpeg)
    }

    fn encode_band<'a>(
        &self,
        number: usize,
        band: &'a Band,
        covers: &[(Range<usize>, Range<usize>)],
    ) -> Result<Cow<'a, [u8]>, EncodingError> {
        let top = number * ROWS;
        let rows = top..(top + ROWS).min(self.height);
        let mut pixels = Cow::Borrowed(&band.pixels);
        for (columns, covered) in covers {
            for row in covered.start.max(rows.start)..covered.end.min(rows.end) {
                let start = (row - top) * self.width;
                let bytes = (start + columns.start) * PIXEL..(start + columns.end) * PIXEL;
                if let Some(covered) = pixels.to_mut().get_mut(bytes) {
                    covered.as_chunks_mut::<PIXEL>().0.fill(COVER);
                }
            }
        }
        match pixels {
            Cow::Owned(pixels) => Ok(Cow::Owned(encode(&pixels, self.width, rows.len())?)),
            Cow::Borrowed(pixels) => {
                if band.jpeg.get().is_none() {
                    // Another thread may have encoded the same pixels.
                    let _ = band.jpeg.set(encode(pixels, self.width, rows.len())?);
                }
                Ok(Cow::Borrowed(band.jpeg.get().map(Vec::as_slice).unwrap_or_default()))
            }
        }
    }

    /// Columns and rows. A side that is not a number covers everything.
    fn covered(&self, [left, top, right, bottom]: [f64; 4]) -> (Range<usize>, Range<usize>) {
        if ![left, top, right, bottom].iter().all(|side| side.is_finite()) {
            return (0..self.width, 0..self.height);
        }
        let before = |side: f64, most: usize| usize::from(whole((side - MARGIN).floor())).min(most);
        let after = |side: f64, most: usize| usize::from(whole((side + MARGIN).ceil())).min(most);
        let columns = before(left, self.width)..after(right, self.width);
        let rows = before(top, self.height)..after(bottom, self.height);
        if columns.is_empty() { (0..0, 0..0) } else { (columns, rows) }
    }
}

/// The fourth byte of a pixel has no meaning.
fn have_same_colours(one: &[u8], other: &[u8]) -> bool {
    let colours = |pixel: &[u8; PIXEL]| u32::from_le_bytes(*pixel) & 0x00ff_ffff;
    let (one, other) = (one.as_chunks::<PIXEL>().0, other.as_chunks::<PIXEL>().0);
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| colours(one) == colours(other))
}

fn side(length: usize) -> u16 {
    u16::try_from(length).unwrap_or_default()
}

/// A band as a JPEG of its own, whose tables are those of each band.
fn encode(pixels: &[u8], width: usize, rows: usize) -> Result<Vec<u8>, EncodingError> {
    let interval = side(width.div_ceil(BLOCK) * (ROWS / BLOCK));
    painting::encode(pixels, (width, rows), QUALITY, interval)
}

/// Header and scan of a JPEG that has one scan.
fn split(jpeg: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = segments(jpeg).find(|(marker, _)| *marker == SCAN)?.1.end;
    Some((jpeg.get(..start)?, jpeg.get(start..jpeg.len().checked_sub(2)?)?))
}

fn set_height(jpeg: &mut [u8], height: u16) {
    let Some((_, frame)) = segments(jpeg).find(|(marker, _)| *marker == FRAME) else { return };
    // After the marker, the length and the precision.
    if let Some(bytes) = jpeg.get_mut(frame.start + 5..frame.start + 7) {
        bytes.copy_from_slice(&height.to_be_bytes());
    }
}

/// Markers and places of the segments, up to the first scan.
fn segments(jpeg: &[u8]) -> impl Iterator<Item = (u8, Range<usize>)> {
    let mut start = 2;
    std::iter::from_fn(move || {
        let [0xff, marker, high, low] = *jpeg.get(start..)?.first_chunk::<4>()? else { return None };
        let segment = start..start + 2 + usize::from(u16::from_be_bytes([high, low]));
        start = if marker == SCAN { jpeg.len() } else { segment.end };
        Some((marker, segment))
    })
}

#[cfg(test)]
mod tests {
    use zune_jpeg::JpegDecoder;
    use zune_jpeg::zune_core::bytestream::ZCursor;

    use super::*;

    const WIDTH: usize = 40;

    fn picture(height: usize, colour: impl Fn(usize, usize) -> [u8; PIXEL]) -> BandedPicture {
        let band = |top: usize| {
            let rows = top..(top + ROWS).min(height);
            let pixels = rows.flat_map(|row| (0..WIDTH).flat_map(move |column| [(column, row)]));
            let pixels = pixels.flat_map(|(column, row)| colour(column, row)).collect();
            Arc::new(Band { pixels, jpeg: OnceLock::new() })
        };
        BandedPicture { width: WIDTH, height, bands: (0..height).step_by(ROWS).map(band).collect() }
    }

    fn decode(jpeg: &[u8]) -> (usize, usize, Vec<u8>) {
        let mut decoder = JpegDecoder::new(ZCursor::new(jpeg));
        let pixels = decoder.decode().expect("a JPEG");
        let (width, height) = decoder.dimensions().expect("a size");
        (width, height, pixels)
    }

    /// Columns and rows of light pixels of a black picture with these covers.
    fn covered(covers: &[[f64; 4]]) -> (Range<usize>, Range<usize>) {
        let jpeg = picture(150, |_, _| [0; PIXEL]).encode(covers).expect("a JPEG");
        let (width, _, pixels) = decode(&jpeg);
        let light = pixels.as_chunks::<3>().0.iter().enumerate().filter(|(_, pixel)| pixel[0] > 0x40);
        let places: Vec<_> = light.map(|(number, _)| (number % width, number / width)).collect();
        let range = |values: Vec<usize>| match (values.iter().min(), values.iter().max()) {
            (Some(first), Some(last)) => *first..last + 1,
            _ => 0..0,
        };
        (range(places.iter().map(|place| place.0).collect()), range(places.iter().map(|place| place.1).collect()))
    }

    #[test]
    fn cover_has_a_margin_and_ends_at_the_edges() {
        assert_eq!(covered(&[[4.5, 60.0, 14.0, 66.5]]), (2..16, 58..69), "across two bands");
        assert_eq!(covered(&[[4.5, 4.0, 14.0, 6.0], [10.0, 140.0, 16.0, 200.0]]), (2..18, 2..150));
        for outside in [[-50.0, 0.0, -10.0, 10.0], [50.0, 0.0, 60.0, 10.0], [0.0, 1e9, 10.0, 1e10]] {
            assert_eq!(covered(&[outside]), (0..0, 0..0));
        }
        assert_eq!(covered(&[[-1e9, -1e9, 1e9, 1e9]]), (0..WIDTH, 0..150));
    }

    #[test]
    fn cover_without_a_place_covers_everything() {
        assert_eq!(covered(&[[f64::NAN, 0.0, 1.0, 1.0]]), (0..WIDTH, 0..150));
    }

    /// A cover changes only the picture that it is for.
    #[test]
    fn picture_of_many_bands_is_one_jpeg() {
        let height = 700;
        // A band differs from those beside it.
        let grey = |_: usize, row: usize| [u8::try_from(row / ROWS * 20).unwrap_or_default(); PIXEL];
        let picture = picture(height, grey);
        let plain = picture.encode(&[]).expect("a JPEG");
        assert_ne!(picture.encode(&[[0.0, 0.0, 20.0, 20.0]]).expect("a JPEG"), plain);
        assert_eq!(picture.encode(&[]).expect("a JPEG"), plain);

        let (width, rows, pixels) = decode(&plain);
        assert_eq!((width, rows), (WIDTH, height));
        for (number, pixel) in pixels.as_chunks::<3>().0.iter().enumerate() {
            let [expected, ..] = grey(number % WIDTH, number / WIDTH);
            assert!(pixel.iter().all(|value| value.abs_diff(expected) <= 2), "{number}: {pixel:?}");
        }
    }

    #[test]
    fn fourth_byte_of_a_pixel_is_no_change() {
        assert!(have_same_colours(&[1, 2, 3, 4], &[1, 2, 3, 5]));
        for (byte, other) in [[9, 2, 3, 4], [1, 9, 3, 4], [1, 2, 9, 4]].iter().enumerate() {
            assert!(!have_same_colours(&[1, 2, 3, 4], other), "{byte}");
        }
        assert!(!have_same_colours(&[1, 2, 3, 4], &[]));
    }
}
