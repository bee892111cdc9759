//! Encoders of pictures. Each receives rows of a picture from top to bottom.

use std::error::Error;
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use cairo::ImageSurface;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use kitfleet_host_protocol::{HostError, PictureFormat, Snapshot};

use super::{MAX_PIXELS, Output};
use crate::failure;

/// Encoders run on another thread.
pub type Encoded<T> = Result<T, Box<dyn Error + Send + Sync>>;

const JPEG_SIDE: u32 = 65_535;

const WEBP_SIDE: u32 = 16_383;

/// Thin coloured lines, such as those of letters, keep their colour from here on.
const FINE: u8 = 80;

const RGB: usize = 3;

pub struct Rows {
    data: cairo::ImageSurfaceDataOwned,
    stride: usize,
    left: u32,
    pub width: u32,
    pub skip: u32,
    pub count: u32,
}

impl Rows {
    pub fn all(surface: ImageSurface) -> Result<Self, HostError> {
        if !matches!(surface.format(), cairo::Format::ARgb32 | cairo::Format::Rgb24) {
            return Err(failure::engine(format!("a picture of {:?}", surface.format())));
        }
        let size = |value: i32| u32::try_from(value).map_err(failure::engine);
        let (width, count) = (size(surface.width())?, size(surface.height())?);
        let stride = usize::try_from(surface.stride()).map_err(failure::engine)?;
        let data = surface.take_data().map_err(failure::engine)?;
        Ok(Self { data, stride, left: 0, width, skip: 0, count })
    }

    pub fn cut(&mut self, left: u32, width: u32) {
        self.left = left.min(self.width.saturating_sub(1));
        self.width = width.min(self.width - self.left);
    }

    pub fn is_transparent(&self) -> bool {
        let pixels: &[u8] = &self.data;
        pixels.chunks_exact(4).all(|pixel| pixel[3] == 0)
    }
}

pub struct Picture {
    file: PictureFile,
    size: Snapshot,
    shrinking: Option<Shrinking>,
}

enum PictureFile {
    Png(Box<png::StreamWriter<'static, BufWriter<File>>>),
    /// All pixels are needed to write the file.
    Whole {
        format: PictureFormat,
        path: PathBuf,
        pixels: Vec<u8>,
    },
}

struct Shrinking {
    factor: usize,
    width: usize,
    sums: Vec<u16>,
    /// Number of rows in the sums.
    rows: usize,
}

impl Picture {
    /// Squares of `factor` pixels become one pixel.
    pub fn create(output: &Output, size: Snapshot, factor: u32) -> Encoded<Self> {
        let shrinking = (factor > 1).then(|| Shrinking::new(size.width, factor));
        let size = Snapshot { width: size.width.div_ceil(factor), height: size.height.div_ceil(factor) };
        let longest = match output.format {
            PictureFormat::Png => u32::MAX,
            PictureFormat::Jpeg(_) => JPEG_SIDE,
            PictureFormat::Webp(_) => WEBP_SIDE,
        };
        let Snapshot { width, height } = size;
        if width.max(height) > longest {
            let message = format!("it has {width} by {height} pixels, and this format at most {longest} on each side");
            return Err(message.into());
        }
        let file = match output.format {
            PictureFormat::Png => {
                let mut encoder = png::Encoder::new(BufWriter::new(File::create(&output.path)?), width, height);
                // A page is opaque, because WebKit paints it on white.
                encoder.set_color(png::ColorType::Rgb);
                encoder.set_depth(png::BitDepth::Eight);
                encoder.set_compression(png::Compression::Fast);
                encoder.set_filter(png::Filter::Up);
                PictureFile::Png(Box::new(encoder.write_header()?.into_stream_writer()?))
            }
            format => {
                if f64::from(width) * f64::from(height) > MAX_PIXELS {
                    let message =
                        format!("it has {width} by {height} pixels, and this format at most {MAX_PIXELS} in all");
                    return Err(message.into());
                }
                let pixels = Vec::with_capacity(width as usize * height as usize * RGB);
                PictureFile::Whole { format, path: output.path.clone(), pixels }
            }
        };
        Ok(Self { file, size, shrinking })
    }

    pub fn append(mut self, rows: &Rows) -> Encoded<Self> {
        let (left, width) = (rows.left as usize * 4, rows.width as usize);
        let mut line = vec![0; width * RGB];
        let pixels: &[u8] = &rows.data;
        for row in pixels.chunks(rows.stride).skip(rows.skip as usize).take(rows.count as usize) {
            for (rgb, bgra) in line.chunks_exact_mut(RGB).zip(row[left..].chunks_exact(4)) {
                rgb.copy_from_slice(&[bgra[2], bgra[1], bgra[0]]);
            }
            self.push(&line)?;
        }
        Ok(self)
    }

    pub fn append_blank(mut self, count: u32) -> Encoded<Self> {
        let width = self.shrinking.as_ref().map_or(self.size.width as usize, |shrinking| shrinking.width);
        let line = vec![u8::MAX; width * RGB];
        for _ in 0..count {
            self.push(&line)?;
        }
        Ok(self)
    }

    fn push(&mut self, line: &[u8]) -> Encoded<()> {
        match &mut self.shrinking {
            None => self.file.write(line),
            Some(shrinking) => match shrinking.add(line) {
                Some(line) => self.file.write(&line),
                None => Ok(()),
            },
        }
    }

    /// Returns the size.
    pub fn finish(mut self) -> Encoded<Snapshot> {
        // The last rows may be fewer than those of a square.
        if let Some(line) = self.shrinking.as_mut().and_then(Shrinking::take) {
            self.file.write(&line)?;
        }
        match self.file {
            PictureFile::Png(writer) => writer.finish()?,
            PictureFile::Whole { format: PictureFormat::Webp(quality), path, pixels } => {
                write_webp(&pixels, self.size, quality, &path)?;
            }
            PictureFile::Whole { format: PictureFormat::Jpeg(quality), path, pixels } => {
                let (width, height) = (u16::try_from(self.size.width)?, u16::try_from(self.size.height)?);
                let mut jpeg = Vec::with_capacity(pixels.len() / 16 + 1024);
                let mut encoder = Encoder::new(&mut jpeg, quality);
                let is_fine = quality >= FINE;
                encoder.set_sampling_factor(if is_fine { SamplingFactor::F_1_1 } else { SamplingFactor::F_2_2 });
                encoder.encode(&pixels, width, height, ColorType::Rgb)?;
                std::fs::write(path, jpeg)?;
            }
            PictureFile::Whole { format: PictureFormat::Png, .. } => {}
        }
        Ok(self.size)
    }
}

impl PictureFile {
    fn write(&mut self, line: &[u8]) -> Encoded<()> {
        match self {
            Self::Png(writer) => Ok(writer.write_all(line)?),
            Self::Whole { pixels, .. } => {
                pixels.extend_from_slice(line);
                Ok(())
            }
        }
    }
}

impl Shrinking {
    fn new(width: u32, factor: u32) -> Self {
        let squares = width.div_ceil(factor) as usize;
        Self { factor: factor as usize, width: width as usize, sums: vec![0; squares * RGB], rows: 0 }
    }

    /// Returns a row of the picture when it is complete.
    fn add(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        for (sums, square) in self.sums.chunks_exact_mut(RGB).zip(line.chunks(self.factor * RGB)) {
            for pixel in square.chunks_exact(RGB) {
                for (sum, value) in sums.iter_mut().zip(pixel) {
                    *sum += u16::from(*value);
                }
            }
        }
        self.rows += 1;
        if self.rows == self.factor { self.take() } else { None }
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        if self.rows == 0 {
            return None;
        }
        let (rows, factor, width) = (self.rows, self.factor, self.width);
        let averages = self.sums.iter().enumerate().map(|(index, sum)| {
            // The last square may be narrower.
            let columns = factor.min(width - index / RGB * factor);
            u8::try_from(usize::from(*sum) / (rows * columns)).unwrap_or(u8::MAX)
        });
        let line = averages.collect();
        self.sums.fill(0);
        self.rows = 0;
        Some(line)
    }
}

// WebKit depends on this version, so that it needs no package of its own, not even for building.
#[link(name = "libwebp.so.7", modifiers = "+verbatim")]
unsafe extern "C" {
    fn WebPEncodeRGB(
        pixels: *const u8,
        width: c_int,
        height: c_int,
        stride: c_int,
        quality: f32,
        output: *mut *mut u8,
    ) -> usize;
    fn WebPFree(memory: *mut c_void);
}

fn write_webp(pixels: &[u8], size: Snapshot, quality: u8, path: &Path) -> Encoded<()> {
    let (width, height) = (i32::try_from(size.width)?, i32::try_from(size.height)?);
    let mut output = std::ptr::null_mut();
    // A picture that was not written to its end would be read beyond its pixels.
    if pixels.len() != size.width as usize * size.height as usize * RGB {
        return Err("the picture is not complete".into());
    }
    // SAFETY: the pixels have the size that is passed, with three bytes each and no gaps between the rows. The encoder sets
    // `output` to memory of its own.
    let bytes =
        unsafe { WebPEncodeRGB(pixels.as_ptr(), width, height, width * 3, f32::from(quality), &raw mut output) };
    if bytes == 0 || output.is_null() {
        return Err("the WebP encoder failed".into());
    }
    // SAFETY: the encoder has written this number of bytes, and nothing else uses them.
    let written = std::fs::write(path, unsafe { std::slice::from_raw_parts(output, bytes) });
    // SAFETY: the memory is that of the encoder, and is not used any more.
    unsafe { WebPFree(output.cast()) };
    Ok(written?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_averaged() {
        let mut shrinking = Shrinking::new(3, 2);
        let line = |values: [u8; 3]| values.into_iter().flat_map(|value| [value; 3]).collect::<Vec<_>>();
        assert_eq!(shrinking.add(&line([0, 100, 7])), None);
        assert_eq!(shrinking.add(&line([200, 100, 9])), Some([[100; 3], [8; 3]].concat()));
        assert_eq!(shrinking.take(), None);
        assert_eq!(shrinking.add(&line([2, 4, 5])), None);
        assert_eq!(shrinking.take(), Some([[3; 3], [5; 3]].concat()));
    }
}
