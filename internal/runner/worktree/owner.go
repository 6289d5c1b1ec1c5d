package worktree

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// owner is the user to whom a repository belongs.
type owner struct{ uid, gid uint32 }

// ownerOf returns the owner of the repository that contains the directory, if this process is root and the repository
// belongs to another user. Git works there as that user: it refuses repositories of other users, and that user must be
// able to change the refs that it creates. Git in a view works as root, because the owner cannot read the view.
func ownerOf(dir string) *owner {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(commonDir(dir))
	if err != nil {
		return nil
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok || sys.Uid == 0 {
		return nil
	}
	return &owner{sys.Uid, sys.Gid}
}

// setCredential makes git run as the owner. A nil owner is this process.
func (o *owner) setCredential(cmd *exec.Cmd) {
	if o == nil {
		return
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: o.uid, Gid: o.gid}
	cmd.Dir = "/" // the owner may not be able to read the working directory of this process
}

// chown makes the owner the owner of a file that this process has created. A nil owner is this process.
func (o *owner) chown(path string) error {
	if o == nil {
		return nil
	}
	return os.Lchown(path, int(o.uid), int(o.gid))
}

// mkdirAll creates the directory and its missing parents for the owner.
func (o *owner) mkdirAll(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrNotExist) {
		if err := o.mkdirAll(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o755)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return o.chown(dir)
}

// InaccessibleDir returns a directory of the repository, or one above it, that confined agents cannot use. It is empty
// if there is none. Confined agents of a server that runs as root have none of root's rights.
func InaccessibleDir(repository string) string {
	if os.Geteuid() != 0 {
		return "" // this process could not read the repository either
	}
	for _, dir := range ReadableDirs(repository) {
		for need, at := fs.FileMode(0o5), dir; ; need, at = 0o1, filepath.Dir(at) {
			if info, err := os.Stat(at); err == nil && permissions(info)&need != need {
				return at
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	return ""
}

// permissions returns what root without capabilities may do with the file.
func permissions(info fs.FileInfo) fs.FileMode {
	mode := info.Mode().Perm()
	switch sys, ok := info.Sys().(*syscall.Stat_t); {
	case ok && sys.Uid == 0:
		return mode >> 6
	case ok && sys.Gid == 0:
		return mode >> 3
	}
	return mode
}
