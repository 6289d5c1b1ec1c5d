package scratch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	maxTempAge = time.Hour // no process needs so much time to write a file
	maxNames   = 1000      // how many files of a directory CreateTemp examines
)

// CreateTemp creates a temporary file next to the file at path. The caller then renames it to path, or links path to it. Only
// this user can read it. CreateTemp also removes temporary files for the same path that are older than maxTempAge: processes left
// them when they were killed.
func CreateTemp(path string) (*os.File, error) {
	dir, prefix := filepath.Dir(path), "."+filepath.Base(path)+".tmp-"
	if d, err := os.Open(dir); err == nil {
		names, _ := d.Readdirnames(maxNames)
		_ = d.Close()
		for _, name := range names {
			old := filepath.Join(dir, name)
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			if info, err := os.Lstat(old); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > maxTempAge {
				_ = os.Remove(old) // another process may have removed it
			}
		}
	}
	return os.CreateTemp(dir, prefix+"*")
}

// WriteTemp writes the data to a file that CreateTemp creates, syncs the file, and returns its path.
func WriteTemp(path string, data []byte) (string, error) {
	f, err := CreateTemp(path)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// WriteFile replaces a file atomically: a crash leaves the old or the new content. It does not sync the directory, so after a crash of
// the machine the file may still have the old content. Only this user can read the file.
func WriteFile(path string, data []byte) error {
	name, err := WriteTemp(path, data)
	if err != nil {
		return err
	}
	if err = os.Rename(name, path); err != nil {
		_ = os.Remove(name)
	}
	return err
}
