//! A configuration compared with the nodes that were formatted on this machine: the volume's
//! servers, its key, and the memory that each node may take.

use anyhow::{Context, Result, bail};
use weft_net::VolumeKey;

use super::marker::Marker;
use crate::process::memory::Share;
use crate::volume_config::config::file::{Config, NodeName, ServerName};

impl Config {
    /// Refuses a configuration that does not name the volume's servers, as far as the metadata
    /// service's folder knows them.
    pub(crate) fn check_servers(&self, nodes: &[NodeName]) -> Result<()> {
        let folder = NodeName::Meta.folder(self).ok();
        let Some(marker) = folder.and_then(|folder| Marker::read(&folder)) else {
            return Ok(());
        };
        self.check_servers_are(marker.servers(), nodes)
    }

    /// Refuses a server among `nodes` that is not among `has`, the volume's servers. With the
    /// metadata service among `nodes`, also refuses a configuration that omits one of them. Without
    /// known servers, refuses nothing.
    pub(crate) fn check_servers_are(&self, has: &[u32], nodes: &[NodeName]) -> Result<()> {
        if has.is_empty() {
            return Ok(());
        }
        let list = |ids: &[u32]| {
            let names = ids.iter().map(|id| ServerName::of(*id).to_string());
            names.collect::<Vec<_>>().join(", ")
        };
        let path = self.path.display();
        // What has joined has a folder, and the service says who it is.
        let is_formatted = |node: &NodeName| {
            node.folder(self)
                .is_ok_and(|folder| Marker::exists(&folder))
        };
        let unknown = nodes.iter().filter_map(|node| match node {
            NodeName::Server(name) if !has.contains(&name.id) && !is_formatted(node) => {
                Some(name.id)
            }
            _ => None,
        });
        let unknown: Vec<u32> = unknown.collect();
        if !unknown.is_empty() {
            bail!(
                "{path} names {}, but the volume has only {}: remove the section, and add the server by `weft server add`, or by \
                 `weft join` on another machine",
                list(&unknown),
                list(has)
            );
        }
        let named = |id: &u32| self.servers.iter().any(|server| server.id == *id);
        let missing: Vec<u32> = has.iter().copied().filter(|id| !named(id)).collect();
        if nodes.contains(&NodeName::Meta) && !missing.is_empty() {
            bail!(
                "{path} does not name {}, which the volume has: restore the [[server]] section",
                list(&missing)
            );
        }
        Ok(())
    }

    /// The share of this machine's memory for each node. It is divided among all nodes that were
    /// formatted here.
    pub(crate) fn share(&self) -> Share {
        Share::of(self.formatted_here())
    }

    /// How many nodes were formatted on this machine.
    fn formatted_here(&self) -> usize {
        let folders = self.nodes().into_iter().map(|node| node.folder(self));
        let formatted = folders.filter(|folder| folder.as_ref().is_ok_and(|f| Marker::exists(f)));
        formatted.count()
    }

    /// The volume's key.
    pub(crate) fn key(&self) -> Result<VolumeKey> {
        let path = self.at(&self.volume.key);
        let options = weft_client::ConnectOptions::from_address(&self.meta.address, &path);
        let options = match options {
            Err(error) if !path.exists() => {
                return Err(error).context(if self.formatted_here() > 0 {
                    "the volume's key is missing: copy it from another machine of the volume, or from a backup"
                } else {
                    "the volume is not formatted, or this machine lacks its key: run `weft format`, or copy the key here"
                });
            }
            options => options?,
        };
        Ok(options.key)
    }
}
