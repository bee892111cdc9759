//! Emulation of a browser: settings of the engine by the host, and of the network by the guard.

use kitfleet_domain::archetypes::{Archetype, Size};
use kitfleet_host_protocol::{self as protocol, HostCommand};
use kitfleet_types::emulation::{self, ColorScheme, Emulation, EmulationState, Orientation, ResourceType};
use kitfleet_types::operations::Emulate;

use super::OperationEnd;
use super::webkit::Webkit;

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

impl Webkit {
    pub(super) async fn emulate(&mut self, change: &Emulate) -> Result<EmulationState, OperationEnd> {
        let emulation = change.applied_to(&self.emulation);
        // No request passes while the host changes the rest.
        self.guard.set_offline(emulation.offline || self.emulation.offline);
        let command = HostCommand::Emulate { emulation: for_host(&emulation, self.sizes) };
        self.host.call::<()>(command).await?;
        self.guard.set_offline(emulation.offline);
        self.viewport = self.sizes.in_orientation(emulation.orientation).viewport;
        self.shared_viewport.set(self.viewport);
        let state = emulation.state();
        self.emulation = emulation;
        Ok(state)
    }
}

pub fn for_host(emulation: &Emulation, sizes: DeviceSizes) -> protocol::Emulation {
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
