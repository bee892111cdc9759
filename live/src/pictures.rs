//! Binary messages of the live view (contract: live 17).

use bytes::{BufMut, Bytes, BytesMut};

/// Size of the header before the JPEG.
pub const HEADER_BYTES: usize = 32;

/// There is no other type yet.
const PICTURE: u8 = 1;
const WHOLE: u8 = 1;
const SHARP: u8 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picture {
    /// Number of the picture, starting at 1.
    pub seq: u32,
    /// 0 for a picture of the whole viewport; otherwise the number of the one it is drawn over.
    pub base: u32,
    /// The page did not change during the capture, or changed so little that the picture is sharp.
    pub sharp: bool,
    /// Width and height in CSS pixels.
    pub view: [u16; 2],
    /// Left, top, width and height in CSS pixels.
    pub rect: [u16; 4],
    /// Capture time in microseconds since 1970.
    pub taken_us: u64,
}

impl Picture {
    #[must_use]
    pub fn write(&self, jpeg: &[u8]) -> Bytes {
        let mut message = BytesMut::with_capacity(HEADER_BYTES + jpeg.len());
        message.put_u8(PICTURE);
        let whole = if self.base == 0 { WHOLE } else { 0 };
        message.put_u8(whole | if self.sharp { SHARP } else { 0 });
        for value in self.view.iter().chain(&self.rect) {
            message.put_u16_le(*value);
        }
        message.put_u16_le(0);
        message.put_u32_le(self.seq);
        message.put_u32_le(self.base);
        message.put_u64_le(self.taken_us);
        message.extend_from_slice(jpeg);
        message.freeze()
    }

    /// Metadata and JPEG; `None` if the message is not a picture.
    #[must_use]
    pub fn read(message: &[u8]) -> Option<(Self, &[u8])> {
        let (header, jpeg) = message.split_at_checked(HEADER_BYTES)?;
        let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let picture = Self {
            seq: u32_at(16),
            base: u32_at(20),
            sharp: header[1] & SHARP != 0,
            view: [u16_at(2), u16_at(4)],
            rect: [u16_at(6), u16_at(8), u16_at(10), u16_at(12)],
            taken_us: u64::from(u32_at(24)) | u64::from(u32_at(28)) << 32,
        };
        (header[0] == PICTURE && (picture.base == 0) == (header[1] & WHOLE != 0)).then_some((picture, jpeg))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Picture;

    proptest! {
        /// An encoded picture decodes to the same picture (contract: live 17).
        #[test]
        fn picture_round_trips(
            seq in 1_u32.., base: u32, sharp: bool, view: [u16; 2], rect: [u16; 4], taken_us: u64, jpeg: Vec<u8>
        ) {
            let picture = Picture { seq, base, sharp, view, rect, taken_us };
            let message = picture.write(&jpeg);
            prop_assert_eq!(Picture::read(&message), Some((picture, &*jpeg)));
        }

        #[test]
        fn decoder_never_panics(message: Vec<u8>) {
            let _ = Picture::read(&message);
        }
    }
}
