package local

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
)

// forget removes the conversations that the agent's program stores outside the agent's directory. It does nothing if the
// agent works in another directory than its own, because other programs may have conversations for that directory.
// Errors are logged, and the deletion continues.
func (b *Place) forget(ctx context.Context, a fleet.Agent, h home) {
	p, err := b.kind(a)
	if err != nil || p.dir != "" {
		return
	}
	store, ok := p.driver.(driver.ConversationStore)
	if !ok {
		return
	}
	realHome, err := filepath.EvalSymlinks(string(h)) // the program sees the real path
	if err != nil {
		return
	}
	root, path := store.Conversations(b.environ(p, nil, nil), filepath.Join(realHome, filepath.Base(h.work())))
	if path == "" {
		return
	}
	if err := removeBelow(root, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.config.Logger.WarnContext(ctx, "removing conversations failed", slog.String("agent", a.Name), slog.Any("error", err))
	}
}

// removeBelow removes the path. It follows no symbolic link out of dir, because agents can create links.
func removeBelow(dir, path string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return root.RemoveAll(path)
}
