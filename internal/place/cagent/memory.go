//go:build cgo

package cagent

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/docker/cagent/pkg/memory/database"
	"github.com/docker/cagent/pkg/tools/builtin"
)

// maxMemory bounds the memories of one agent, in bytes.
const maxMemory = 1 << 20

// memories are what an agent was told to remember. They are in a file that all sessions of one owner with the same
// definition share, and that outlives them: see Place.memory.
type memories struct {
	dir  home
	name string
}

var _ builtin.DB = (*memories)(nil)

// memoryFile names the file of memories. A definition can have several, which differ by their paths.
func memoryFile(path string) string { return "memory-" + fileName(path) + ".json" }

// change reads the memories and has do change them. They are written when do says so.
func (m *memories) change(ctx context.Context, do func([]database.UserMemory) (_ []database.UserMemory, changed bool)) error {
	return m.dir.locked(ctx, func() error {
		var all []database.UserMemory
		if err := m.dir.read(m.name, &all); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.New("the memories cannot be read")
		}
		all, changed := do(all)
		if !changed {
			return nil
		}
		size := 0
		for _, one := range all {
			size += len(one.Memory)
		}
		if size > maxMemory {
			return errors.New("the memory is full: delete what is not needed any more")
		}
		if err := m.dir.write(m.name, all); err != nil {
			return errors.New("the memories cannot be written")
		}
		return nil
	})
}

// AddMemory implements builtin.DB.
func (m *memories) AddMemory(ctx context.Context, one database.UserMemory) error {
	return m.change(ctx, func(all []database.UserMemory) ([]database.UserMemory, bool) { return append(all, one), true })
}

// GetMemories implements builtin.DB.
func (m *memories) GetMemories(ctx context.Context) (all []database.UserMemory, err error) {
	err = m.change(ctx, func(now []database.UserMemory) ([]database.UserMemory, bool) {
		all = now
		return now, false
	})
	return all, err
}

// DeleteMemory implements builtin.DB.
func (m *memories) DeleteMemory(ctx context.Context, one database.UserMemory) error {
	return m.change(ctx, func(all []database.UserMemory) ([]database.UserMemory, bool) {
		return slices.DeleteFunc(all, func(x database.UserMemory) bool { return x.ID == one.ID }), true
	})
}
