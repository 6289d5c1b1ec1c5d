package local

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
)

// removeConversations removes the conversations that the agent's program stores outside the agent's directory. If the agent
// works in a directory of people, removeConversations does nothing, because their conversations about that directory are stored
// in the same place. It only logs an error, so that the deletion of the agent continues.
func (p *Place) removeConversations(ctx context.Context, a fleet.Agent, h home) {
	proj, err := p.agentProject(a)
	if err != nil || proj.dir != "" && !proj.worksInResults {
		return
	}
	store, ok := proj.driver.(driver.ConversationStoreDriver)
	if !ok {
		return
	}
	parent, work := filepath.Dir(string(h)), filepath.Join(filepath.Base(string(h)), filepath.Base(h.workDir()))
	if proj.worksInResults {
		parent, work = filepath.Dir(proj.dir), filepath.Base(proj.dir)
	}
	parent, err = filepath.EvalSymlinks(parent) // the program saw the real path
	if err != nil {
		return
	}
	root, path := store.Conversations(p.environ(proj, nil, nil), filepath.Join(parent, work))
	if path == "" {
		return
	}
	if err := sandbox.RemoveBelow(ctx, root, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.config.Logger.WarnContext(ctx, "cannot remove an agent's conversations", slog.String("agent", a.Name), slog.Any("error", err))
	}
}
