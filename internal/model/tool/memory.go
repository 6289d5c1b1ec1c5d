//go:build cgo

package tool

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/docker/cagent/pkg/memory/database"
	"github.com/docker/cagent/pkg/tools"
	"github.com/docker/cagent/pkg/tools/builtin"

	"fleet/internal/runner"
)

// maxMemoriesSize limits the texts of one set of memories, in bytes.
const maxMemoriesSize = 1 << 20

// memories are the texts that agents store with their memory tools, in a file that outlives the sessions.
type memories struct {
	dir  dataDir
	name string
}

var _ builtin.DB = (*memories)(nil)

// NewMemories returns the tools with which an agent stores texts in the directory. All agents of an owner with the same named
// definition share a directory. A definition can have several sets of memories. path distinguishes them.
func NewMemories(dir, path string) tools.ToolSet {
	return builtin.NewMemoryTool(&memories{dataDir(dir), "memory-" + runner.FileName(path) + ".json"})
}

// access calls do with the memories while it holds the lock of the directory. It writes the result if do reports a change.
func (m *memories) access(do func([]database.UserMemory) (_ []database.UserMemory, changed bool)) error {
	return m.dir.withLock(func() error {
		var all []database.UserMemory
		if err := m.dir.read(m.name, &all); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.New("cannot read the memories")
		}
		all, changed := do(all)
		if !changed {
			return nil
		}
		size := 0
		for _, memory := range all {
			size += len(memory.Memory)
		}
		if size > maxMemoriesSize {
			return errors.New("the memory is full: delete memories that are no longer needed")
		}
		if err := m.dir.write(m.name, all); err != nil {
			return errors.New("cannot write the memories")
		}
		return nil
	})
}

// AddMemory implements builtin.DB.
func (m *memories) AddMemory(_ context.Context, memory database.UserMemory) error {
	return m.access(func(all []database.UserMemory) ([]database.UserMemory, bool) { return append(all, memory), true })
}

// GetMemories implements builtin.DB.
func (m *memories) GetMemories(_ context.Context) (all []database.UserMemory, err error) {
	err = m.access(func(stored []database.UserMemory) ([]database.UserMemory, bool) {
		all = stored
		return stored, false
	})
	return all, err
}

// DeleteMemory implements builtin.DB.
func (m *memories) DeleteMemory(_ context.Context, memory database.UserMemory) error {
	return m.access(func(all []database.UserMemory) ([]database.UserMemory, bool) {
		return slices.DeleteFunc(all, func(x database.UserMemory) bool { return x.ID == memory.ID }), true
	})
}
