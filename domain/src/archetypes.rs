//! Catalogue of the devices that a session can emulate (contract: archetypes). The entries are in `archetypes.json`
//! beside this file, so adding a device changes no code.

use std::sync::LazyLock;

use kitfleet_types::validation::Invalid;
use serde::Deserialize;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archetype {
    /// Value of `archetype` in requests.
    pub id: String,
    pub display_label: String,
    pub device: String,
    pub ios_version: String,
    pub safari_version: String,
    /// Group of devices with the same canvas output.
    pub canvas_family: String,
    pub status: ArchetypeStatus,
    /// `navigator.userAgent`
    pub user_agent: String,
    /// `navigator.platform`
    pub platform: String,
    /// `innerWidth` and `innerHeight`, in CSS pixels.
    pub viewport: Size,
    /// `screen.width` and `screen.height`, in CSS pixels.
    pub screen: Size,
    /// `devicePixelRatio`
    pub device_pixel_ratio: u32,
    /// `navigator.maxTouchPoints`
    pub max_touch_points: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Size {
    pub width: u32,
    pub height: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum ArchetypeStatus {
    Launch,
    Available,
}

impl ArchetypeStatus {
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

static CATALOGUE: LazyLock<Vec<Archetype>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("archetypes.json")).expect("a test parses the catalogue that is compiled in")
});

#[must_use]
pub fn all() -> &'static [Archetype] {
    &CATALOGUE
}

#[must_use]
pub fn find(id: &str) -> Option<&'static Archetype> {
    CATALOGUE.iter().find(|archetype| archetype.id == id)
}

pub fn check(id: &str) -> Result<(), Invalid> {
    find(id).map(drop).ok_or_else(|| Invalid::field("archetype", "must be an id of GET /v1/archetypes"))
}

/// Returns the archetype used when a create names none.
///
/// # Panics
/// Panics if the catalogue has no `launch` entry. A test checks that it has exactly one.
#[must_use]
pub fn launch() -> &'static Archetype {
    let launch = CATALOGUE.iter().find(|archetype| archetype.status == ArchetypeStatus::Launch);
    launch.expect("a test counts the launch entries of the catalogue that is compiled in")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogue_has_distinct_devices_and_one_launch_entry() {
        let mut ids: Vec<_> = all().iter().map(|archetype| archetype.id.as_str()).collect();
        assert!(ids.len() >= 8);
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all().len());
        assert_eq!(all().iter().filter(|archetype| archetype.status == ArchetypeStatus::Launch).count(), 1);
        assert_eq!(launch().id, "iphone-16-ios-18");
    }

    #[test]
    fn user_agents_agree_with_their_versions() {
        for archetype in all() {
            assert!(
                archetype.user_agent.contains(&format!("Version/{} ", archetype.safari_version)),
                "{}",
                archetype.id
            );
            // Safari on an iPad requests desktop sites: it identifies itself as a Macintosh and does not send the
            // version of iPadOS.
            let named = archetype.user_agent.contains(&format!("OS {} like", archetype.ios_version.replace('.', "_")));
            assert!(named || archetype.user_agent.contains("Macintosh"), "{}", archetype.id);
        }
    }
}
