//! Cause of a browser's death.

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Cause {
    Memory,
    /// Its limit, or the disk was nearly full and the browser had written the most.
    Disk,
    PageProcess,
    NetworkProcess,
    /// The host ended, or sent an invalid message.
    Host,
}

impl Cause {
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}
