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
// belongs to another user. Otherwise it returns nil. Git works there as that user, because git refuses repositories of
// other users, and because that user must be able to change the refs that git creates. In a view, git works as root,
// because the owner cannot read the view.
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

// setCredential makes git run as the owner. It does nothing if o is nil. SysProcAttr of the command must be set.
func (o *owner) setCredential(cmd *exec.Cmd) {
	if o == nil {
		return
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: o.uid, Gid: o.gid}
	cmd.Dir = "/" // the owner may not be able to read the working directory of this process
}

// chown gives a file that this process has created to the owner. It does nothing if o is nil.
func (o *owner) chown(path string) error {
	if o == nil {
		return nil
	}
	return os.Lchown(path, int(o.uid), int(o.gid))
}

// mkdirAll creates the directory and its missing parents, and gives them to the owner.
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

// InaccessibleDir returns a directory of the repository, or a parent of such a directory, that confined agents cannot
// use. It returns an empty path if there is none. The confined agents of a server that runs as root do not have root's
// rights.
func InaccessibleDir(repository string) string {
	if os.Geteuid() != 0 {
		return "" // this process could not read the repository either
	}
	for _, dir := range ReadableDirs(repository) {
		for need, path := fs.FileMode(0o5), dir; ; need, path = 0o1, filepath.Dir(path) {
			if info, err := os.Stat(path); err == nil && permissions(info)&need != need {
				return path
			}
			if path == filepath.Dir(path) {
				break
			}
		}
	}
	return ""
}

// permissions returns, in its lowest three bits, what root without capabilities may do with the file.
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
