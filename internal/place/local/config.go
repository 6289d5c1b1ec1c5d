package local

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/sandbox"
)

// Config configures a Place. Dir and Program are required.
type Config struct {
	Name             string       // name of the place; empty: local
	Dir              string       // directory for all files of the place; created with access for the user only
	Projects         []Project    // the projects that agents can work on; see Discover
	Program          string       // supervises runs: see runner.Config
	PassEnv          []string     // variables of the server that all agents get, except those on models; a * at the end matches any suffix
	Sandbox          sandbox.Mode // the default for projects; empty: sandbox.Auto
	Read             []string     // paths that programs may read, in addition to the system and their own files
	Write            []string     // paths that programs may write, in addition to their own files; each must exist
	MaxPayloadOutput int64        // maximum size of the output in the payload of a run, in bytes; 0: 16 MiB
	MaxRawOutput     int64        // maximum size of the raw output that is kept for a run, in bytes; 0: 256 MiB; at least MaxPayloadOutput
	// KeptRetention is how long the home of a deleted agent is kept if it may have work that exists nowhere else; 0: 7 days;
	// negative: for ever.
	KeptRetention time.Duration
	// KeptMax limits the size of all kept homes together, in bytes; 0: 20 GiB; negative: no limit. If they exceed it, the oldest
	// are removed first. The newest is never removed because of its size.
	KeptMax int64
	// CacheMax limits the size of the caches that the agents of one owner share in one project, in bytes; 0: 20 GiB;
	// negative: no limit.
	CacheMax     int64
	PrivateFiles map[string]string // files of the server that no agent may read, by the name of the setting that names the file
	StopGrace    time.Duration     // how long a run may take to stop before it is killed; 0: 5 s
	Environ      []string          // the server's environment; nil: os.Environ()
	PollInterval time.Duration     // see fleet.Traits; 0: the reconciler's default
	Models       ModelsConfig      // agents on models
	Logger       *slog.Logger      // nil: no logging
}

// validate validates the configuration, fills in defaults, makes paths absolute, and returns the projects, sorted by name.
func (c *Config) validate() ([]project, error) {
	if c.Dir == "" || c.Program == "" {
		return nil, errors.New("a place needs Dir and Program")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	c.Dir = dir
	c.MaxPayloadOutput = cmp.Or(c.MaxPayloadOutput, runner.DefaultMaxPayloadOutput)
	c.StopGrace = cmp.Or(c.StopGrace, runner.DefaultStopGrace)
	c.KeptRetention = cmp.Or(c.KeptRetention, DefaultKeptRetention)
	c.KeptMax = cmp.Or(c.KeptMax, DefaultKeptMax)
	c.CacheMax = cmp.Or(c.CacheMax, DefaultCacheMax)
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if err := checkVariables("pass_env", c.PassEnv); err != nil {
		return nil, err
	}
	if _, err := sandbox.Choose(c.Sandbox, ""); err != nil {
		return nil, err
	}
	if err := resolveAll(&c.Read, &c.Write); err != nil {
		return nil, err
	}
	var projects []project
	for i, proj := range c.Projects {
		proj.Sandbox = cmp.Or(proj.Sandbox, c.Sandbox)
		validated, err := proj.validate()
		if err != nil {
			return nil, fmt.Errorf("project %d %q: %w", i+1, proj.Name, err)
		}
		if slices.ContainsFunc(projects, func(o project) bool { return strings.EqualFold(o.Name, proj.Name) }) {
			return nil, fmt.Errorf("project %d: there are two projects named %q: rename one of them", i+1, proj.Name)
		}
		projects = append(projects, validated)
	}
	slices.SortFunc(projects, func(a, b project) int { return strings.Compare(a.Name, b.Name) })
	return projects, nil
}

// checkVariables validates names of environment variables for agents. option is the setting that has the names, for errors. A
// name may end in "*", except in env.
func checkVariables(option string, names []string) error {
	for _, n := range names {
		if !variablePattern.MatchString(n) || option == "env" && strings.HasSuffix(n, "*") {
			return fmt.Errorf("%s: %q is not a valid name of an environment variable", option, n)
		}
		if fleet.IsReservedVariable(n) {
			return fmt.Errorf("%s: %q is reserved for Fleet and never passed to agents: leave it out", option, n)
		}
	}
	return nil
}

// resolve returns the absolute path, with ~ expanded to the home directory. It returns URLs and an empty path
// unchanged.
func resolve(path string) (string, error) {
	if path == "" || isRemote(path) {
		return path, nil
	}
	if path == "~" || strings.HasPrefix(path, "~/") {
		userHome, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		path = filepath.Join(userHome, path[1:])
	}
	return filepath.Abs(path)
}

// resolveAll replaces each list with a copy whose paths are resolved.
func resolveAll(lists ...*[]string) (err error) {
	for _, list := range lists {
		*list = slices.Clone(*list)
		for i, path := range *list {
			if (*list)[i], err = resolve(path); err != nil {
				return err
			}
		}
	}
	return nil
}
