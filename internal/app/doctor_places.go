package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fleet/internal/face/wire"
	"fleet/internal/place/coder"
	"fleet/internal/place/local"
	"fleet/internal/place/probe"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
)

// checkCoder examines the Coder deployment and its templates.
func (d *doctor) checkCoder(ctx context.Context) {
	c := d.cfg.Coder
	if c.URL == "" && !slices.Contains(d.cfg.Places, "coder") {
		return
	}
	d.projectsUnknown = true
	if c.URL == "" {
		c.URL = coder.FindURL(d.getenv, d.getenv("HOME"))
	}
	if c.URL == "" {
		d.add(verdictFailed, "coder", "set CODER_URL or coder.url, or log in with `coder login`", "no Coder deployment is configured")
		return
	}
	c.Token = coder.FindToken(d.getenv, d.getenv("HOME"), c.TokenFile)
	c.RenewHint = coder.RenewTokenHint(d.getenv, d.getenv("HOME"), c.TokenFile)
	place, err := coder.New(c)
	if err != nil {
		d.add(verdictFailed, "coder", "correct the settings below coder", "%v", err)
		return
	}
	defer func() { _ = place.Close() }()
	asked := time.Now()
	x, err := place.Examine(ctx)
	d.checkClock("Coder's", asked, x.Clock)
	if err != nil {
		next := "check the address and the network"
		if errors.Is(err, coder.ErrToken) {
			next = "docs/operate/coder.md says which token the server needs"
		}
		d.add(verdictFailed, "coder", next, "%v", err)
		return
	}
	d.add(verdictOK, "coder", "", "%s, signed in as %s", x.Version, x.User)
	switch left := time.Until(x.Expires); {
	case x.Expires.IsZero() || left > expiresSoon:
	case left <= 0:
		d.add(verdictFailed, "coder token", c.RenewHint, "it has expired")
	default:
		d.add(verdictWarning, "coder token", c.RenewHint, "it expires at %s", x.Expires.UTC().Format(time.RFC3339))
	}
	projects, err := place.Projects(ctx)
	d.projectsUnknown = err != nil
	switch {
	case err != nil:
		d.add(verdictFailed, "templates", "give the token's user the right to see templates", "%v", err)
	case len(projects) == 0:
		d.add(verdictWarning, "templates", "push a template with a parameter for the prompt (docs/operate/coder.md), or name one in coder.projects", "no template can have agents")
	default:
		names := make([]string, len(projects))
		for i, p := range projects {
			names[i] = p.Name
		}
		d.projects = append(d.projects, names...)
		d.add(verdictOK, "templates", "", "%s", strings.Join(names, ", "))
	}
}

// checkPrograms examines the programs, keys and repositories of the projects on this machine.
func (d *doctor) checkPrograms(ctx context.Context) {
	if !slices.Contains(d.cfg.Places, "local") {
		return
	}
	machine := probe.New(probe.Config{Environ: d.environ})
	checkedPrograms := map[string]bool{}
	for _, p := range projectsOf(d.cfg) {
		d.projects = append(d.projects, p.Name)
		d.checkRepository(p)
		name := programOf(p)
		if checkedPrograms[name] {
			continue
		}
		checkedPrograms[name] = true
		d.checkKey(p)
		if _, err := exec.LookPath(name); d.startNoPrograms && err == nil {
			continue
		}
		path, output, err := machine.Version(ctx, name)
		version, _, _ := strings.Cut(strings.TrimSpace(output), "\n")
		switch {
		case path == "":
			next := "put it on the server's PATH"
			if how := driver.HowToInstall(name); how != "" {
				next = how + ", or " + next
			}
			d.add(verdictFailed, "program "+filepath.Base(name), next, "the project %s needs it, and it is not on PATH", p.Name)
		case err != nil:
			d.add(verdictWarning, "program "+filepath.Base(name), "run `"+name+" --version` as the server's user", "cannot find out the version of %s: %v", path, err)
		default:
			d.add(verdictOK, "program "+filepath.Base(name), "", "%s, %s", path, version)
			d.tryInSandbox(ctx, p)
		}
	}
	if _, err := exec.LookPath("git"); err != nil {
		d.add(verdictWarning, "program git", "install git", "projects with a repository need it, and it is not on PATH")
	}
}

// tryInSandbox checks that the project's program also works in the sandbox. It must be called only if the program works outside of
// the sandbox.
func (d *doctor) tryInSandbox(ctx context.Context, p local.Project) {
	c, err := d.cfg.localConfig()
	if err == nil {
		c.Environ = d.environ
		err = local.TryProgram(ctx, c, p.Name)
	}
	check := "sandbox of " + filepath.Base(programOf(p))
	denied, ok := errors.AsType[*local.DeniedError](err)
	switch {
	case err == nil:
	case !ok:
		d.add(verdictWarning, check, "correct the settings below local, or see docs/operate/security.md", "cannot try the program in the sandbox: %v", err)
	case denied.UnreadableDir == "":
		d.add(verdictWarning, check, "find out which files it cannot read, for example with strace, and add their directory to local.read", "%v", denied)
	default:
		d.add(verdictWarning, check, "add "+denied.UnreadableDir+" to local.read", "%v", denied)
	}
}

// checkLimits checks that the limits of projects are for projects that exist. It must be called after checkCoder and checkPrograms, which find
// the projects.
func (d *doctor) checkLimits(context.Context) {
	for _, name := range slices.Sorted(maps.Keys(d.cfg.Limits.Projects)) {
		if d.projectsUnknown || slices.Contains(d.projects, name) {
			continue
		}
		next := "remove the limit, or ignore this if another replica has the project"
		if near := wire.Nearest(name, d.projects); near != "" {
			next = "write " + near + " if you mean this project"
		}
		d.add(verdictWarning, "limits", next, "limits.projects has %s, and there is no such project here", name)
	}
}

// checkKey checks that the project's program has a login of the server's user, or that its key is in the environment.
func (d *doctor) checkKey(p local.Project) {
	if name := local.MissingKey(p, d.environ, d.cfg.Local.PassEnv); name != "" {
		d.add(verdictWarning, "key of "+filepath.Base(programOf(p)), "set it, or log in with "+filepath.Base(programOf(p))+" as the server's user",
			"the project %s has no %s and no login of the server's user", p.Name, name)
	}
}

// warnMissing logs a warning for each program, repository and key that the projects on this machine need and do not have.
func (s *Server) warnMissing(ctx context.Context) {
	d := &doctor{cfg: s.cfg, environ: os.Environ(), startNoPrograms: true}
	d.checkPrograms(ctx)
	for _, f := range d.findings {
		if f.Verdict != verdictOK {
			s.log.WarnContext(ctx, "something is missing: "+f.Message, slog.String("check", f.Check), slog.String("next", f.Next))
		}
	}
}

// programOf returns the name or path of the program that the project's tasks run.
func programOf(p local.Project) string {
	switch {
	case len(p.Command) > 0:
		return p.Command[0]
	case p.Driver == "" || p.Driver == "shell":
		return "bash"
	}
	return p.Driver
}

// checkRepository examines the repository of a project if it is on this machine.
func (d *doctor) checkRepository(p local.Project) {
	if p.Repository == "" || strings.Contains(p.Repository, ":") {
		return
	}
	path, err := fullPath(p.Repository)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		d.add(verdictFailed, "project "+p.Name, "correct its repository, or give the server's user access to it", "%v", err)
	}
}

// checkSandbox examines whether this machine can confine agents' programs.
func (d *doctor) checkSandbox(context.Context) {
	if !slices.Contains(d.cfg.Places, "local") {
		return
	}
	err := sandbox.Available()
	switch {
	case err == nil:
		d.add(verdictOK, "sandbox", "", "programs of agents can be confined")
	case d.cfg.Local.Sandbox == sandbox.Landlock:
		d.add(verdictFailed, "sandbox", "set local.sandbox to auto to run without it", "%v", err)
	default:
		d.add(verdictWarning, "sandbox", "agents have the rights of the server's user; docs/operate/security.md says what a sandbox needs", "%v", err)
	}
}
