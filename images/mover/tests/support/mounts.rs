//! File systems of their own at a transfer's destination.

use std::process::Command;

use super::{skip, Bench};

impl Bench {
    /// Mounts a file system of so many MiB at the destination; false where that is not allowed and the skip is expected.
    pub(crate) fn mount_small_destination(&self, size_mib: u32) -> bool {
        self.mount_destination(&["-t", "tmpfs", "-o", &format!("size={size_mib}m"), "tmpfs"])
    }

    /// As `mount_small_destination`, with room for so many names.
    pub(crate) fn mount_destination_of_names(&self, names: u32) -> bool {
        self.mount_destination(&["-t", "tmpfs", "-o", &format!("nr_inodes={names}"), "tmpfs"])
    }

    /// As `mount_small_destination`, with an ext4 that does not tell what a name is when a directory is listed.
    pub(crate) fn mount_destination_without_types(&self) -> bool {
        self.mount_destination_of_image(&["-O", "^filetype"])
    }

    /// As `mount_small_destination`, with an ext4 in the file `image`, made with these options.
    pub(crate) fn mount_destination_of_image(&self, options: &[&str]) -> bool {
        let image = self.path("image");
        std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let made = Command::new("mkfs.ext4").arg("-q").args(options).arg(&image).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfs.ext4 is of the package e2fsprogs");
        self.mount_destination(&["-o", "loop", &image.display().to_string()])
    }

    fn mount_destination(&self, arguments: &[&str]) -> bool {
        std::fs::create_dir(self.destination()).unwrap();
        let mut mount = Command::new("mount");
        let mounted = mount.args(arguments).arg(self.destination()).status().is_ok_and(|status| status.success());
        if !mounted {
            skip("a small file system cannot be mounted here (needs root)");
        }
        mounted
    }

    pub(crate) fn unmount_destination(&self) {
        let unmounted = Command::new("umount").arg(self.destination()).status().unwrap();
        assert!(unmounted.success());
    }
}
