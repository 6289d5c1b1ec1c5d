//go:build cgo

package tool

import (
	"encoding/json"
	"errors"
	"path/filepath"

	"github.com/rogpeppe/go-internal/lockedfile"

	"fleet/internal/place/agentfile"
	"fleet/internal/scratch"
)

// dataDir is a directory in which tools store data that outlives a run. Several runs can use it at the same time.
type dataDir string

// maxStoredSize is the maximum size of a stored file, in bytes.
const maxStoredSize = 64 << 20

func (d dataDir) path(name string) string { return filepath.Join(string(d), name) }

// withLock calls do while it holds the lock of the directory. The lock excludes other goroutines and processes. An agent that
// never releases the lock only stops its own tools.
func (d dataDir) withLock(do func() error) error {
	unlock, err := lockedfile.MutexAt(d.path(".lock")).Lock()
	if err != nil {
		return errors.New("cannot lock the directory")
	}
	defer unlock()
	return do()
}

// read reads a JSON file into v. It returns fs.ErrNotExist if the file does not exist.
func (d dataDir) read(name string, v any) error {
	b, err := agentfile.Read(d.path(name), maxStoredSize)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// write replaces a JSON file by one with v. A reader sees the old file or the new one.
func (d dataDir) write(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return scratch.WriteFile(d.path(name), append(b, '\n'))
}
