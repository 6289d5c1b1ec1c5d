package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Permissions of users other than the owner and the group.
const (
	othersAny  = 0o007
	othersRead = 0o004
	othersPass = 0o001
)

// checkData returns an error if other users of this machine can enter, list or change the data directory, because it has agents
// and their conversations. It accepts a directory that other users cannot reach because they cannot enter one of its parent
// directories. It also accepts a directory that does not exist yet, because the server creates it for this user alone.
func checkData(dir string) error {
	if runtime.GOOS == "windows" { // file modes have no meaning there
		return nil
	}
	path, err := filepath.Abs(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	mode := info.Mode().Perm()
	if !info.IsDir() || mode&othersAny == 0 {
		return nil
	}
	for up := filepath.Dir(path); ; up = filepath.Dir(up) {
		info, err := os.Stat(up)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&othersPass == 0 {
			return nil
		}
		if up == filepath.Dir(up) {
			break
		}
	}
	return fmt.Errorf("data is %s, which other users of this machine can enter or list (mode %04o): run `chmod o-rwx %s`, or name a directory in it that does not exist yet", dir, mode, dir)
}
