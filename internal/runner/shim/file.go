package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"fleet/internal/place/agentfile"
	"fleet/internal/runner/sandbox"
	"fleet/internal/scratch"
)

// WriteFile writes a file atomically. Unlike scratch.WriteFile, it also replaces a directory.
func WriteFile(path string, data []byte) error {
	tmp, err := scratch.WriteTemp(path, data)
	if err != nil {
		return err
	}
	err = os.Rename(tmp, path)
	if errors.Is(err, syscall.EISDIR) || errors.Is(err, os.ErrExist) { // the agent replaced the file by a directory
		err = errors.Join(sandbox.Remove(context.Background(), path), os.Rename(tmp, path))
	}
	if err != nil {
		_ = os.Remove(tmp)
	}
	return err
}

// writeOnce writes v as JSON to a new file, atomically. The error is os.ErrExist if the file exists. On a full disk it
// uses a spare file of the run.
func writeOnce(path string, v any) error {
	if _, err := os.Lstat(path); err == nil {
		return os.ErrExist // without a temporary file, for which a full disk has no space
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp, err := scratch.WriteTemp(path, b)
	if isFull(err) {
		tmp, err = writeSpare(filepath.Dir(path), b)
	}
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp) }()
	return os.Link(tmp, path)
}

// maxFile limits the size of a file that describes a run, in bytes.
const maxFile = 16 << 20

func readJSON(path string, v any) error {
	b, err := agentfile.Read(path, maxFile)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil { // Fleet writes the file atomically, so the agent has replaced it
		return fmt.Errorf("%s: %w: %w", path, agentfile.ErrReplaced, err)
	}
	return nil
}

// readOptional returns the content of the file, or nil if the file does not exist.
func readOptional[T any](path string) (*T, error) {
	v := new(T)
	err := readJSON(path, v)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}
