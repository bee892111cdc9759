use std::cell::RefCell;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairo::{Context, Format, ImageSurface, ImageSurfaceDataOwned};
use gtk::prelude::*;
use jpeg_encoder::{ColorType, Encoder, EncodingError, SamplingFactor};
use kitfleet_host_protocol::HostError;
use webkit2gtk::WebView;

use crate::clock::now_us;
use crate::failure;

/// For parts that change.
const QUALITY: u8 = 65;
/// For parts that have settled.
const SHARP_QUALITY: u8 = 80;

/// Number of bytes of one pixel.
pub const PIXEL: usize = 4;

/// In CSS pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rect {
    left: u16,
    top: u16,
    right: u16,
    bottom: u16,
}

impl Rect {
    pub fn of(view: &WebView) -> Self {
        let side = |length: i32| u16::try_from(length).unwrap_or_default();
        Self { left: 0, top: 0, right: side(view.allocated_width()), bottom: side(view.allocated_height()) }
    }

    /// `None` when nothing is to be redrawn.
    pub fn clipped(context: &Context, view: Self) -> Option<Self> {
        let (left, top, right, bottom) = context.clip_extents().ok()?;
        let new = Self {
            left: whole(left.floor()),
            top: whole(top.floor()),
            right: whole(right.ceil()).min(view.right),
            bottom: whole(bottom.ceil()).min(view.bottom),
        };
        (new.left < new.right && new.top < new.bottom).then_some(new)
    }

    pub fn union(self, other: Self) -> Self {
        Self {
            left: self.left.min(other.left),
            top: self.top.min(other.top),
            right: self.right.max(other.right),
            bottom: self.bottom.max(other.bottom),
        }
    }

    /// To even numbers, so that a reduction by two keeps the edges.
    pub fn even_within(self, view: Self) -> Self {
        let up = |edge: u16, most: u16| edge.saturating_add(edge & 1).min(most);
        Self {
            left: self.left & !1,
            top: self.top & !1,
            right: up(self.right, view.right),
            bottom: up(self.bottom, view.bottom),
        }
    }

    pub fn contains(self, other: Self) -> bool {
        self.union(other) == self
    }

    pub fn area(self) -> u32 {
        let [width, height] = self.size();
        u32::from(width) * u32::from(height)
    }

    pub fn size(self) -> [u16; 2] {
        [self.right.saturating_sub(self.left), self.bottom.saturating_sub(self.top)]
    }

    pub fn place(self) -> [u16; 4] {
        let [width, height] = self.size();
        [self.left, self.top, width, height]
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the number is whole and in range")]
pub fn whole(length: f64) -> u16 {
    length.clamp(0.0, f64::from(u16::MAX)) as u16
}

/// Reused between pictures.
#[derive(Default)]
pub struct Surface(RefCell<Option<ImageSurface>>);

pub struct PaintedFrame {
    pixels: ImageSurfaceDataOwned,
    stride: usize,
    width: usize,
    height: usize,
    scale: usize,
    taken_us: u64,
}

pub struct Encoded {
    /// Microseconds since 1970.
    pub taken_us: u64,
    pub base64: String,
}

impl Surface {
    /// Paints a part of the view at the device's scale.
    pub fn paint(&self, view: &WebView, rect: Rect) -> Result<PaintedFrame, HostError> {
        let scale = view.scale_factor();
        let surface = self.take((view.allocated_width() * scale, view.allocated_height() * scale), scale)?;
        let [left, top, width, height] = rect.place();
        {
            let context = Context::new(&surface).map_err(failure::engine)?;
            context.rectangle(0.0, 0.0, f64::from(width), f64::from(height));
            context.clip();
            context.translate(-f64::from(left), -f64::from(top));
            view.draw(&context);
        }
        let positive = |number: i32| usize::try_from(number).map_err(failure::engine);
        let (stride, scale) = (positive(surface.stride())?, positive(scale)?);
        Ok(PaintedFrame {
            pixels: surface.take_data().map_err(failure::engine)?,
            stride,
            width: usize::from(width) * scale,
            height: usize::from(height) * scale,
            scale,
            taken_us: now_us(),
        })
    }

    fn take(&self, (width, height): (i32, i32), scale: i32) -> Result<ImageSurface, HostError> {
        if let Some(surface) = self.0.take().filter(|kept| (kept.width(), kept.height()) == (width, height)) {
            return Ok(surface);
        }
        surface_of(width, height, scale)
    }

    pub fn clear(&self) {
        self.0.take();
    }
}

impl PaintedFrame {
    /// On another thread. A blurred picture has one pixel per CSS pixel, and a sharp one has up to twice the resolution.
    pub async fn encode(self, kept_in: &Surface, sharp: bool) -> Result<Encoded, HostError> {
        let Self { pixels, stride, width, height, scale, taken_us } = self;
        let smaller = if sharp { scale.div_ceil(2) } else { scale };
        let encoding = gio::spawn_blocking(move || {
            let (small, width, height) = shrink(&pixels, stride, (width, height), smaller);
            let jpeg = encode(&small, (width, height), if sharp { SHARP_QUALITY } else { QUALITY }, 0);
            (pixels, jpeg)
        });
        let (pixels, jpeg) = encoding.await.map_err(|_| failure::engine("the encoder panicked"))?;
        kept_in.0.replace(Some(pixels.into_inner()));
        Ok(Encoded { taken_us, base64: STANDARD.encode(jpeg.map_err(failure::engine)?) })
    }
}

/// Opaque. The size is in pixels of the device.
pub fn surface_of(width: i32, height: i32, scale: i32) -> Result<ImageSurface, HostError> {
    let surface = ImageSurface::create(Format::Rgb24, width, height).map_err(failure::engine)?;
    surface.set_device_scale(f64::from(scale), f64::from(scale));
    Ok(surface)
}

/// Cairo's own filter takes twenty times as long.
pub fn shrink(pixels: &[u8], stride: usize, size: (usize, usize), by: usize) -> (Vec<u8>, usize, usize) {
    match by {
        1 => {
            let rows = pixels.chunks(stride).take(size.1);
            (rows.flat_map(|row| &row[..size.0 * PIXEL]).copied().collect(), size.0, size.1)
        }
        2 => average::<2, 8, 4>(pixels, stride, size),
        3 => average::<3, 12, 9>(pixels, stride, size),
        _ => average::<4, 16, 16>(pixels, stride, size),
    }
}

/// `BYTES` is the size of `N` pixels, and `AREA` the square of `N`. Each loop is simple, so that the compiler makes it parallel.
fn average<const N: usize, const BYTES: usize, const AREA: u16>(
    pixels: &[u8],
    stride: usize,
    (width, height): (usize, usize),
) -> (Vec<u8>, usize, usize) {
    let (small_width, small_height) = (width / N, height / N);
    let mut small = vec![0; small_width * small_height * PIXEL];
    let mut sums = vec![0_u16; small_width * BYTES];
    let mut totals = vec![0_u16; small_width * PIXEL];
    for (number, line) in small.chunks_exact_mut((small_width * PIXEL).max(1)).enumerate() {
        let mut rows = pixels.chunks(stride).skip(number * N).take(N);
        for (sum, value) in sums.iter_mut().zip(rows.next().unwrap_or_default()) {
            *sum = u16::from(*value);
        }
        for row in rows {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += u16::from(*value);
            }
        }
        for (total, sums) in totals.as_chunks_mut::<PIXEL>().0.iter_mut().zip(sums.as_chunks::<BYTES>().0) {
            *total = [0; PIXEL];
            for pixel in sums.as_chunks::<PIXEL>().0 {
                for (total, sum) in total.iter_mut().zip(pixel) {
                    *total += sum;
                }
            }
        }
        for (value, total) in line.iter_mut().zip(&totals) {
            *value = u8::try_from(total / AREA).unwrap_or(u8::MAX);
        }
    }
    (small, small_width, small_height)
}

/// As JPEG. A restart interval of 0 means none.
pub fn encode(
    pixels: &[u8],
    (width, height): (usize, usize),
    quality: u8,
    restart_interval: u16,
) -> Result<Vec<u8>, EncodingError> {
    let side = |length: usize| u16::try_from(length).unwrap_or_default();
    let mut jpeg = Vec::with_capacity(pixels.len() / 8 + 1024);
    let mut encoder = Encoder::new(&mut jpeg, quality);
    // With subsampling, thin coloured lines such as those of letters lose their colour.
    let fine = quality >= SHARP_QUALITY;
    encoder.set_sampling_factor(if fine { SamplingFactor::F_1_1 } else { SamplingFactor::F_2_2 });
    encoder.set_restart_interval(restart_interval);
    encoder.encode(pixels, side(width), side(height), ColorType::Bgra)?;
    Ok(jpeg)
}
