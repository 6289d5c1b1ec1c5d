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
// works in another directory, removeConversations does nothing, because people's conversations about that directory are stored
// in the same place. It only logs an error, so that the deletion of the agent continues.
func (p *Place) removeConversations(ctx context.Context, a fleet.Agent, h home) {
	proj, err := p.agentProject(a)
	if err != nil || proj.dir != "" {
		return
	}
	store, ok := proj.driver.(driver.ConversationStoreDriver)
	if !ok {
		return
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(string(h))) // the program saw the real path
	if err != nil {
		return
	}
	root, path := store.Conversations(p.environ(proj, nil, nil), filepath.Join(parent, filepath.Base(string(h)), filepath.Base(h.work())))
	if path == "" {
		return
	}
	if err := sandbox.RemoveBelow(ctx, root, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.config.Logger.WarnContext(ctx, "cannot remove an agent's conversations", slog.String("agent", a.Name), slog.Any("error", err))
	}
}
