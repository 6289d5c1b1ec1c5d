package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/worktree"
)

// These are the defaults of Config.KeptRetention and Config.KeptMax.
const (
	DefaultKeptRetention = 7 * 24 * time.Hour
	DefaultKeptMax       = 20 << 30 // in bytes
)

// keptHome returns the path to which Delete moves the home of an agent whose work it keeps.
func (p *Place) keptHome(uid string) home {
	return home(filepath.Join(p.config.Dir, "kept", runner.FileName(uid)))
}

// moveToKept moves the agent's home to the directory of kept homes, and returns its description. It hides the agent's repositories
// from git: people may run git in the kept home, and the configuration of a repository can name programs that git starts.
func (p *Place) moveToKept(ctx context.Context, h home, r *record) (string, error) {
	k := p.keptHome(r.UID)
	err := sandbox.HideRepositories(ctx, string(h))
	if err == nil {
		err = os.MkdirAll(filepath.Dir(string(k)), 0o700)
	}
	if err == nil {
		err = os.Rename(string(h), string(k))
	}
	if err != nil {
		return "", runner.HostError("cannot keep the agent's directory", err)
	}
	if err := p.tidyKept(ctx, time.Now()); err != nil {
		p.config.Logger.WarnContext(ctx, "kept directories not removed", slog.Any("error", err))
	}
	return p.describeKept(k), nil
}

// describeKept describes the kept home for people. The description is less precise if the record cannot be read.
func (p *Place) describeKept(k home) string {
	r, err := k.record()
	if err != nil || r == nil {
		return "its directory is kept in " + string(k)
	}
	where := string(k)
	if until := p.keptUntil(r.KeptAt); !until.IsZero() {
		where += " until " + until.Format(time.RFC3339)
	}
	text := fmt.Sprintf("its directory is kept in %s, because it may have work that exists only there: %s; fleet agent restore %s brings the agent back", where, r.Unsaved, r.Name)
	if r.KeptOutside != "" {
		text = r.KeptOutside + "; " + text
	}
	return text
}

// keptUntil returns when the retention of a home that was kept at the given time ends. It returns the zero time if it never ends.
func (p *Place) keptUntil(at time.Time) time.Time {
	if p.config.KeptRetention < 0 {
		return time.Time{}
	}
	return at.Add(p.config.KeptRetention)
}

// KeptWork implements fleet.Keeper. It leaves out the homes of agents on models, which ModelPlace returns.
func (p *Place) KeptWork(ctx context.Context, uid string) ([]fleet.KeptWork, error) {
	return p.listKept(ctx, uid, (*record).isNotOnModel)
}

// listKept returns the kept homes for whose record accept returns true, the oldest first. If uid is not empty, it returns only
// the home of that agent. For a home whose record cannot be read, it calls accept with an empty record.
func (p *Place) listKept(ctx context.Context, uid string, accept func(*record) bool) (all []fleet.KeptWork, err error) {
	entries, err := os.ReadDir(filepath.Join(p.config.Dir, "kept"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, runner.HostError("cannot read the directory of kept agents", err)
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		k := home(filepath.Join(p.config.Dir, "kept", e.Name()))
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") || uid != "" && e.Name() != runner.FileName(uid) {
			continue
		}
		w := fleet.KeptWork{AgentUID: e.Name(), Location: string(k), Reason: "its record cannot be read"}
		r, err := k.record()
		if err != nil {
			r = nil
		}
		if !accept(cmp.Or(r, &record{})) {
			continue
		}
		if r != nil {
			w = fleet.KeptWork{
				AgentUID: r.UID, AgentName: r.Name, Owner: r.Owner, Project: r.Project, Reason: r.Unsaved, Location: string(k),
				Size: r.KeptSize, KeptAt: r.KeptAt,
			}
		} else if info, err := e.Info(); err == nil {
			w.KeptAt = info.ModTime().UTC().Truncate(time.Second)
		}
		w.Until = p.keptUntil(w.KeptAt)
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b fleet.KeptWork) int { return a.KeptAt.Compare(b.KeptAt) })
	return all, nil
}

// restore moves the kept home of a deleted agent back. It also completes an interrupted call: until everything else is restored, the
// record says that the home is being deleted. If the agent has a complete home, restore does nothing.
func (p *Place) restore(ctx context.Context, a fleet.Agent) error {
	h := p.home(a.UID)
	if err := p.moveBack(h, p.keptHome(a.UID)); err != nil {
		return err
	}
	r, err := h.record()
	if err != nil || r == nil || !r.Deleting || r.Unsaved == "" {
		return nil //nolint:nilerr // the caller reads the record too
	}
	if err := sandbox.ShowRepositories(ctx, string(h)); err != nil {
		return runner.HostError("cannot restore the agent's directory", err)
	}
	r.Deleting, r.Unsaved, r.KeptOutside = false, "", "" // KeptAt says that it was kept
	if err := h.writeRecord(r); err != nil {
		return runner.HostError("cannot write the agent's record", err)
	}
	h.appendLog("restored after it was deleted")
	return nil
}

// moveBack moves the kept home k to h. It does nothing if h exists or k does not.
func (p *Place) moveBack(h, k home) error {
	p.keptMu.Lock() // tidyKept must not remove a home that is being restored
	defer p.keptMu.Unlock()
	if h.exists() || !k.exists() {
		return nil
	}
	if r, err := k.record(); err != nil || r == nil {
		return runner.HostError("cannot read the agent's record", err)
	}
	if err := os.Rename(string(k), string(h)); err != nil {
		return runner.HostError("cannot restore the agent's directory", err)
	}
	return nil
}

// removedPrefix begins the name of a kept home, or of a shared cache, that is being removed.
const removedPrefix = ".removed-"

// tidyKept removes the kept homes whose retention time is over. If the others exceed their size limit together, it removes the
// oldest of them, but never the newest one.
func (p *Place) tidyKept(ctx context.Context, now time.Time) error {
	p.keptMu.Lock()
	defer p.keptMu.Unlock()
	var errs []error
	entries, _ := os.ReadDir(filepath.Join(p.config.Dir, "kept")) // listKept reports the error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), removedPrefix) { // the server was killed while it removed this home
			errs = append(errs, worktree.RemoveAll(filepath.Join(p.config.Dir, "kept", e.Name())))
		}
	}
	all, err := p.listKept(ctx, "", func(*record) bool { return true })
	if err != nil {
		return err
	}
	total := int64(0)
	for _, w := range all {
		total += w.Size
	}
	for i, w := range all {
		expired := !w.Until.IsZero() && !now.Before(w.Until)
		overLimit := p.config.KeptMax > 0 && total > p.config.KeptMax && i < len(all)-1
		if !expired && !overLimit {
			continue
		}
		total -= w.Size
		p.config.Logger.InfoContext(ctx, "removing a kept directory", slog.String("agent", w.AgentName), slog.Time("kept_at", w.KeptAt), slog.Bool("expired", expired))
		errs = append(errs, p.removeKept(ctx, w))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

// removeKept removes a kept home. The caller holds keptMu.
func (p *Place) removeKept(ctx context.Context, w fleet.KeptWork) error {
	trash := filepath.Join(p.config.Dir, "kept", removedPrefix+filepath.Base(w.Location))
	if err := os.Rename(w.Location, trash); err != nil { // a kept home is either complete or removed
		return err
	}
	p.removeConversations(ctx, fleet.Agent{UID: w.AgentUID, Name: w.AgentName, Project: w.Project}, p.home(w.AgentUID))
	return worktree.RemoveAll(trash)
}
