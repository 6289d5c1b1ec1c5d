package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	repositories "fleet/internal/runner/repository"
	"fleet/internal/runner/worktree"
	"fleet/internal/scratch"
)

// Place runs agents on this machine. It implements fleet.Place.
type Place struct {
	config    Config // Reload does not change it, so its Projects and PrivateFiles are those that New got
	setup     atomic.Pointer[setup]
	git       *worktree.Git
	host      *runner.Host
	temp      *scratch.Dir
	keptMu    sync.Mutex // is held while kept homes are removed or moved back
	cachesMu  sync.Mutex // keeps runs from starting to use a shared cache while it is retired
	checks    repositories.Checks
	closeOnce func() error
}

var (
	_ fleet.Place    = (*Place)(nil)
	_ fleet.Confiner = (*Place)(nil)
	_ fleet.Optioner = (*Place)(nil)
	_ fleet.Attacher = (*Place)(nil)
	_ fleet.Examiner = (*Place)(nil)
	_ fleet.Keeper   = (*Place)(nil)
	_ fleet.Tidier   = (*Place)(nil)

	_ fleet.Integrator = (*Place)(nil)
	_ fleet.Pruner     = (*Place)(nil)
)

// New validates the configuration and creates a Place. It creates the directories of the place if they do not exist, and removes
// temporary files that an earlier server has left. The caller must close the Place.
func New(c Config) (*Place, error) {
	projects, err := c.validate()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(c.Dir, "agents"), 0o700); err != nil {
		return nil, fmt.Errorf("cannot create the directory for agents: %w", err)
	}
	if c.Dir, err = filepath.EvalSymlinks(c.Dir); err != nil { // so that no path that agents may write contains a link
		return nil, err
	}
	all, err := c.checkPaths(projects)
	if err != nil {
		return nil, err
	}
	temp, err := scratch.Open(filepath.Join(c.Dir, "tmp"))
	if err != nil {
		return nil, fmt.Errorf("cannot create the directory for temporary files: %w", err)
	}
	for _, p := range projects {
		c.removeTemporaryFiles(p)
	}
	p := &Place{config: c, temp: temp, git: worktree.New(gitEnviron(c), temp.Path()), host: runner.New(runner.Config{
		Program: c.Program, MaxPayloadOutput: c.MaxPayloadOutput, MaxRawOutput: c.MaxRawOutput, StopGrace: c.StopGrace, Logger: c.Logger,
	})}
	p.checks.Dir, p.checks.Host, p.checks.Logger = filepath.Join(c.Dir, "checks"), p.host, c.Logger
	p.setup.Store(&setup{projects: projects, paths: all})
	p.closeOnce = sync.OnceValue(func() error {
		p.checks.Wait()
		p.host.Close()
		return p.temp.Close()
	})
	return p, nil
}

// removeTemporaryFiles removes the temporary files that an earlier server has left in the project's repository.
func (c *Config) removeTemporaryFiles(p project) {
	repository := c.repositoryPath(p.Repository)
	if repository == "" {
		return
	}
	if err := worktree.Sweep(repository); err != nil {
		c.Logger.Warn("temporary files remain in a repository", "project", p.Name, "error", err)
	}
}

// Traits implements fleet.Place.
func (p *Place) Traits() fleet.Traits {
	return fleet.Traits{
		Name: cmp.Or(p.config.Name, "local"), PollInterval: p.config.PollInterval, StopGrace: p.config.StopGrace, Drivers: Drivers(), ReachesFleet: true,
		KeepsFiles: true, SupportsChanges: true, SupportsChecks: true, HasProjectChecks: true, SupportsBundles: true, SupportsOutput: true, KeepsWork: true, Asks: true,
	}
}

// Projects implements fleet.Place.
func (p *Place) Projects(ctx context.Context) ([]fleet.Project, error) {
	projects := p.setup.Load().projects
	all := make([]fleet.Project, 0, len(projects))
	for _, proj := range projects {
		all = append(all, proj.fleetProject())
	}
	return all, ctx.Err()
}

// Roles implements fleet.Place.
func (p *Place) Roles(ctx context.Context, name string) ([]fleet.Role, error) {
	proj, err := p.project(name)
	if err != nil {
		return nil, err
	}
	roles := make([]fleet.Role, 0, len(proj.Roles))
	for _, r := range proj.Roles {
		roles = append(roles, fleet.Role{Name: r.Name, DisplayName: cmp.Or(r.DisplayName, r.Name), Description: r.Description, Default: r.Default, Checks: r.fleetChecks()})
	}
	return roles, ctx.Err()
}

// Close implements fleet.Place.
func (p *Place) Close() error { return p.closeOnce() }

// Log implements fleet.Place.
func (p *Place) Log(ctx context.Context, a fleet.Agent, n int) ([]string, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	return runner.Home(p.home(a.UID)).Log(n)
}

// Tidy implements fleet.Tidier. It removes kept homes, results, caches and checks that need not be kept any longer.
func (p *Place) Tidy(ctx context.Context, now time.Time) error {
	return errors.Join(p.tidyKept(ctx, now), p.tidyResults(ctx, now), p.tidyCaches(ctx, now), p.checks.Tidy(ctx, now))
}
