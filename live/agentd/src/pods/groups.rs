//! Which control groups are a pod's, by what kubelet and container runtimes call them.
//!
//! Kubelet makes a group for each pod below one that it calls `kubepods`, and runtimes make theirs for containers below
//! that: `/kubepods/burstable/podUID/CONTAINER` by its driver cgroupfs,
//! `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-CONTAINER.scope` by that of
//! systemd, which has `_` for each `-` of the uid (kubelet, `pkg/kubelet/cm`).

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

/// Groups that are looked at: who has more gets no more of the agent's time.
pub const MOST: usize = 16_384;
/// The longest uid, without dashes.
const MOST_UID: usize = 64;
/// The group of all pods.
const PODS: &str = "kubepods";

/// A uid without what drivers write otherwise; `None`: it is none.
pub fn plain_uid(text: &str) -> Option<String> {
    let plain: String = text.chars().filter(|c| !matches!(c, '-' | '_')).collect();
    let is_uid = (1..=MOST_UID).contains(&plain.len())
        && plain.bytes().all(|octet| octet.is_ascii_alphanumeric());
    is_uid.then(|| plain.to_ascii_lowercase())
}

/// The pod whose group is called so, by its uid; `is_within`: below the group of all pods.
fn uid_in(name: &str, is_within: bool) -> Option<String> {
    let by_systemd = name.strip_suffix(".slice").and_then(|name| name.rsplit_once("-pod"));
    match by_systemd {
        Some((above, uid)) if above.contains(PODS) => plain_uid(uid),
        Some(_) => None,
        None if is_within => plain_uid(name.strip_prefix("pod")?),
        None => None,
    }
}

/// The groups of pods and all below them, by their inodes, where groups are mounted at `root`: the pod's uid of each.
pub fn of_pods(root: &Path) -> HashMap<u64, Arc<str>> {
    let mut found = HashMap::new();
    let mut left = vec![(root.to_path_buf(), None::<Arc<str>>, false)];
    let mut looked = 0;
    while let Some((group, pod, is_within)) = left.pop()
        && looked < MOST
    {
        looked += 1;
        for file in fs::read_dir(&group).into_iter().flatten().flatten() {
            let name = file.file_name();
            let is_group = file.file_type().is_ok_and(|kind| kind.is_dir());
            let Some(name) = name.to_str().filter(|_| is_group) else { continue };
            let pod = pod.clone().or_else(|| uid_in(name, is_within).map(Arc::from));
            if let Some(pod) = &pod
                && let Ok(about) = file.metadata()
            {
                found.insert(about.ino(), Arc::clone(pod));
            }
            let is_within = is_within || name.contains(PODS);
            // A kubelet may have a group of its own above all pods (kind).
            if is_within || name.contains("kubelet") {
                left.push((file.path(), pod, is_within));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use super::*;

    const UID: &str = "1b4e28ba2fa111d2883f0016d3cca427";

    /// The uid that is found for the innermost group of a path.
    fn found(path: &str) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join(path);
        fs::create_dir_all(&group).unwrap();
        let inode = fs::metadata(&group).unwrap().ino();
        of_pods(root.path()).get(&inode).map(|uid| uid.to_string())
    }

    #[test]
    fn groups_of_pods_are_known_by_both_drivers_and_all_runtimes() {
        let dashes = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
        let lines = dashes.replace('-', "_");
        let container = "c".repeat(64);
        for path in [
            // cgroupfs: guaranteed, burstable, best effort.
            format!("kubepods/pod{dashes}/{container}"),
            format!("kubepods/burstable/pod{dashes}/{container}"),
            format!("kubepods/besteffort/pod{dashes}"),
            // A pod of a file has a hash.
            format!("kubepods/burstable/pod{UID}/{container}"),
            // systemd: containerd, cri-o, cri-dockerd.
            format!("kubepods.slice/kubepods-pod{lines}.slice/cri-containerd-{container}.scope"),
            format!(
                "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{lines}.slice/crio-{container}.scope"
            ),
            format!(
                "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{lines}.slice/docker-{container}.scope"
            ),
            // What a container makes below its own.
            format!(
                "kubepods.slice/kubepods-pod{lines}.slice/cri-containerd-{container}.scope/init.scope/podx"
            ),
            // A kubelet in a group of its own.
            format!(
                "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{lines}.slice/crio-c.scope"
            ),
            format!("kubelet/kubepods/burstable/pod{dashes}"),
        ] {
            assert_eq!(found(&path).as_deref(), Some(UID), "{path}");
        }
    }

    #[test]
    fn other_groups_are_no_pods() {
        let long = format!("kubepods/pod{}", "a".repeat(MOST_UID + 1));
        for path in [
            "system.slice/kubelet.service",
            "user.slice/user-1000.slice",
            "podman/pod1b4e28ba",
            "machine.slice/libpod-pod1b4e28ba.slice",
            "kubepods.slice/kubepods-burstable.slice",
            "kubepods/burstable",
            "kubepods/pod",
            "kubepods/pod..",
            "kubepods/pod\u{1b}[2J",
            &*long,
        ] {
            assert_eq!(found(path), None, "{path}");
        }
        assert!(of_pods(Path::new("/nowhere")).is_empty());
    }
}
