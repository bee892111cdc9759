//! Sizes of a device, and its emulation in the types of the host.

use kitfleet_domain::archetypes::{Archetype, Size};
use kitfleet_host_protocol as protocol;
use kitfleet_types::emulation::{self, ColorScheme, Emulation, Orientation, ResourceType};

#[derive(Clone, Copy)]
pub struct DeviceSizes {
    pub viewport: Size,
    pub screen: Size,
}

impl DeviceSizes {
    pub fn of(archetype: &Archetype) -> Self {
        Self { viewport: archetype.viewport, screen: archetype.screen }
    }

    pub fn in_orientation(self, orientation: Orientation) -> Self {
        let turned = |Size { width, height }: Size| Size { width: height, height: width };
        match orientation {
            Orientation::Portrait => self,
            Orientation::Landscape => Self { viewport: turned(self.viewport), screen: turned(self.screen) },
        }
    }
}

pub fn emulation_for_host(emulation: &Emulation, sizes: DeviceSizes) -> protocol::Emulation {
    let DeviceSizes { viewport, screen } = sizes.in_orientation(emulation.orientation);
    let header = |header: &emulation::ExtraHeader| protocol::ExtraHeader {
        name: header.name.clone(),
        value: header.value.clone(),
        origins: header.origins.clone(),
    };
    protocol::Emulation {
        geolocation: emulation.geolocation.map(|at| protocol::Geolocation {
            latitude: at.latitude,
            longitude: at.longitude,
            accuracy: at.accuracy,
        }),
        color_scheme: match emulation.color_scheme {
            ColorScheme::Light => protocol::ColorScheme::Light,
            ColorScheme::Dark => protocol::ColorScheme::Dark,
        },
        orientation: match emulation.orientation {
            Orientation::Portrait => protocol::Orientation::Portrait,
            Orientation::Landscape => protocol::Orientation::Landscape,
        },
        viewport: [viewport.width, viewport.height],
        screen: [screen.width, screen.height],
        extra_headers: emulation.extra_headers.iter().map(header).collect(),
        offline: emulation.offline,
        block: protocol::Block {
            resource_types: emulation.block.resource_types.iter().copied().map(resource_type).collect(),
            hosts: emulation.block.hosts.clone(),
        },
    }
}

fn resource_type(kind: ResourceType) -> protocol::ResourceType {
    match kind {
        ResourceType::Image => protocol::ResourceType::Image,
        ResourceType::Media => protocol::ResourceType::Media,
        ResourceType::Font => protocol::ResourceType::Font,
        ResourceType::Stylesheet => protocol::ResourceType::Stylesheet,
        ResourceType::Script => protocol::ResourceType::Script,
        ResourceType::Websocket => protocol::ResourceType::Websocket,
        ResourceType::Xhr => protocol::ResourceType::Xhr,
    }
}
