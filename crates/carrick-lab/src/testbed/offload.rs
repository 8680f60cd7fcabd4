//! Segmentation offloads of devices: without them, what crosses a link is what TCP calls a segment.

use anyhow::{Context as _, Result, bail};

use crate::testbed::namespace::Namespace;
use crate::testbed::sys::ethtool;

/// Name, and the commands that read and set it (linux/ethtool.h).
const OFFLOADS: [(&str, u32, u32); 3] = [
    ("tcp-segmentation-offload", 0x1e, 0x1f),
    ("generic-segmentation-offload", 0x23, 0x24),
    ("generic-receive-offload", 0x2b, 0x2c),
];

/// Switches segmentation and receive offloads of a device off, and looks whether they are. Checksum offload stays.
///
/// # Errors
/// When the kernel refuses, or does not do it.
pub(crate) fn switch_off(namespace: &Namespace, device: &str) -> Result<()> {
    namespace.inside(|| {
        for (name, get, set) in OFFLOADS {
            ethtool(device, set, 0).with_context(|| {
                format!("ioctl SIOCETHTOOL: cannot switch off {name} of {device}")
            })?;
            let left = ethtool(device, get, 0)
                .with_context(|| format!("ioctl SIOCETHTOOL: cannot read {name} of {device}"))?;
            if left != 0 {
                bail!("{device} keeps {name}: packets would not be lost one by one");
            }
        }
        Ok(())
    })
}
