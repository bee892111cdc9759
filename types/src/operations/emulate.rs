use serde::{Deserialize, Serialize};

use super::{OperationOutput, OperationSpec, Parameters, Secrets};
use crate::emulation::{
    Block, ColorScheme, Emulation, EmulationParams, EmulationState, ExtraHeader, Geolocation, Orientation,
};
use crate::validation::Invalid;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change<T> {
    #[default]
    Keep,
    /// The member gets its default.
    Reset,
    Set(T),
}

impl<T> Change<T> {
    fn value(&self) -> Option<&T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Reset => None,
        }
    }

    fn with(self, value: T) -> Self {
        match self {
            Self::Set(_) => Self::Set(value),
            other => other,
        }
    }

    fn apply(&self, to: &mut T)
    where
        T: Clone + Default,
    {
        match self {
            Self::Keep => {}
            Self::Reset => *to = T::default(),
            Self::Set(value) => to.clone_from(value),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Emulate {
    pub geolocation: Change<Geolocation>,
    pub color_scheme: Change<ColorScheme>,
    pub orientation: Change<Orientation>,
    pub extra_headers: Change<Vec<ExtraHeader>>,
    pub offline: Change<bool>,
    pub block: Change<Block>,
}

impl Parameters for Emulate {
    const SPEC: OperationSpec = OperationSpec { kind: "unknown", route: Some("emulation"), ..OperationSpec::READS };

    fn take_secrets(&mut self) -> Option<Secrets> {
        let Change::Set(headers) = &mut self.extra_headers else { return None };
        ExtraHeader::take_values(headers).map(Secrets::of_headers)
    }

    fn restore_secrets(&mut self, secrets: Secrets) {
        if let Change::Set(headers) = &mut self.extra_headers {
            ExtraHeader::restore_values(headers, secrets.into_header_values());
        }
    }
}

impl OperationOutput for EmulationState {}

impl Emulate {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn parse(self) -> Result<Self, Invalid> {
        let parsed = Emulation::parse(EmulationParams {
            geolocation: self.geolocation.value().copied(),
            extra_headers: self.extra_headers.value().cloned(),
            block: self.block.value().cloned(),
            ..EmulationParams::default()
        })?;
        Ok(Self {
            extra_headers: self.extra_headers.with(parsed.extra_headers),
            block: self.block.with(parsed.block),
            ..self
        })
    }

    #[must_use]
    pub fn applied_to(&self, before: &Emulation) -> Emulation {
        let mut after = before.clone();
        match &self.geolocation {
            Change::Keep => {}
            Change::Reset => after.geolocation = None,
            Change::Set(geolocation) => after.geolocation = Some(*geolocation),
        }
        self.color_scheme.apply(&mut after.color_scheme);
        self.orientation.apply(&mut after.orientation);
        self.extra_headers.apply(&mut after.extra_headers);
        self.offline.apply(&mut after.offline);
        self.block.apply(&mut after.block);
        after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before() -> Emulation {
        let extra_headers = vec![ExtraHeader { name: "a".to_owned(), value: "secret".to_owned(), origins: None }];
        Emulation {
            locale: Some("de".to_owned()),
            geolocation: Some(Geolocation { latitude: 1.0, longitude: 2.0, accuracy: 3.0 }),
            color_scheme: ColorScheme::Dark,
            orientation: Orientation::Landscape,
            extra_headers,
            offline: true,
            ..Emulation::default()
        }
    }

    #[test]
    fn absent_members_keep_their_values() {
        assert_eq!(Emulate::default().applied_to(&before()), before());
    }

    #[test]
    fn null_resets_a_member_to_its_default() {
        let change = Emulate {
            geolocation: Change::Reset,
            color_scheme: Change::Reset,
            orientation: Change::Reset,
            extra_headers: Change::Reset,
            offline: Change::Reset,
            block: Change::Reset,
        };
        let after = Emulation { locale: Some("de".to_owned()), ..Emulation::default() };
        assert_eq!(change.applied_to(&before()), after);
    }

    #[test]
    fn value_replaces_the_whole_member() {
        let header = ExtraHeader { name: "b".to_owned(), value: "c".to_owned(), origins: None };
        let change = Emulate { extra_headers: Change::Set(vec![header.clone()]), ..Emulate::default() };
        let change = change.parse().expect("a valid header");
        assert_eq!(change.applied_to(&before()), Emulation { extra_headers: vec![header], ..before() });
    }

    #[test]
    fn header_values_are_taken_and_restored() {
        let headers = before().extra_headers;
        let mut change = Emulate { extra_headers: Change::Set(headers.clone()), ..Emulate::default() };
        let secrets = change.take_secrets().expect("secrets");
        let stored = serde_json::to_string(&change).expect("JSON");
        assert!(!stored.contains("secret"), "{stored}");
        let mut restored: Emulate = serde_json::from_str(&stored).expect("the same type");
        restored.restore_secrets(secrets);
        assert_eq!(restored.extra_headers, Change::Set(headers));
        for change in [Change::Keep, Change::Reset, Change::Set(Vec::new())] {
            assert!(Emulate { extra_headers: change, ..Emulate::default() }.take_secrets().is_none());
        }
    }
}
