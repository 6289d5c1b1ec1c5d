package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"fleet/internal/scratch"
)

// Permissions of users other than the owner and the group.
const (
	othersAny   = 0o007
	othersRead  = 0o004
	othersEnter = 0o001
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
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&othersEnter == 0 {
			return nil
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return fmt.Errorf("data is %s, which other users of this machine can enter or list (mode %04o): run `chmod o-rwx %s`, or name a directory in it that does not exist yet", dir, mode, dir)
}

// readOrCreate returns the text in the file. If the file does not exist, it creates the file with the result of newText. If
// another process creates it meanwhile, readOrCreate returns that process's text.
func readOrCreate(path string, newText func() string) (string, error) {
	content, err := os.ReadFile(path) //nolint:gosec // in our data directory
	if errors.Is(err, fs.ErrNotExist) {
		if err := writeNewFile(path, newText()); err != nil {
			return "", err
		}
		content, err = os.ReadFile(path) //nolint:gosec // in our data directory
	}
	return strings.TrimSpace(string(content)), err
}

// writeNewFile writes the text into a new file. If the file exists already, writeNewFile leaves it unchanged and returns nil.
func writeNewFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	name, err := scratch.WriteTemp(path, []byte(text+"\n"))
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(name) }()
	if err := os.Link(name, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
