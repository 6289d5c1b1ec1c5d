package local

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/worktree"
)

// loginFiles lists, for each program, the files in a user's home that hold the program's login. The program may write these
// files, because it renews its login.
var loginFiles = map[string][]string{
	"claude":   {".claude/.credentials.json"},
	"codex":    {".codex/auth.json"},
	"gemini":   {".gemini/oauth_creds.json"},
	"opencode": {".local/share/opencode/auth.json"},
}

// confinement describes how the programs of an agent are confined.
type confinement struct {
	policy sandbox.Policy
	env    map[string]string // variables that confined programs need: their directories, those of version managers, the proxy
	caches map[string]string // variables of the shared cache; see addCaches
}

// sandboxOf returns how the programs of the project are confined: sandbox.Landlock or sandbox.None.
func (p *Place) sandboxOf(proj project) (sandbox.Mode, error) {
	return sandbox.Choose(cmp.Or(proj.Sandbox, p.config.Sandbox), proj.Network)
}

// requiredSandbox is like sandboxOf, but returns PROVISIONING_FAILED with a message for the agent's owner.
func (p *Place) requiredSandbox(proj project) (sandbox.Mode, error) {
	mode, err := p.sandboxOf(proj)
	if err != nil {
		return mode, fleet.Errorf(fleet.ReasonProvisioningFailed, "the project %q cannot be confined as its configuration requires: %s", proj.Name, err)
	}
	return mode, nil
}

// UnconfinedReason implements fleet.Confiner.
func (p *Place) UnconfinedReason(a fleet.Agent) string {
	proj, err := p.agentProject(a)
	if err != nil {
		return "" // without a project, nothing can run
	}
	mode, err := p.sandboxOf(proj)
	switch {
	case err != nil:
		return fleet.PublicMessage(err)
	case mode != sandbox.None:
		return ""
	}
	if err := sandbox.Available(); err != nil {
		return fleet.PublicMessage(err)
	}
	where := ""
	if proj.Name != "" {
		where = fmt.Sprintf(" for the project %q", proj.Name)
	}
	return fmt.Sprintf("the configuration has sandbox: none%s; the operator can change it to auto", where)
}

// confine creates the agent's own directories and files, and returns how its programs are confined. If they are not confined, it
// creates nothing and returns nil. r is nil for a program that is only tried; see TryProgram.
func (p *Place) confine(proj project, h home, r *record) (*confinement, error) {
	mode, err := p.requiredSandbox(proj)
	if err != nil {
		return nil, err
	}
	if mode == sandbox.None {
		return nil, nil
	}
	homeDir, tmpDir := h.join("home"), h.join("tmp")
	c := &confinement{
		policy: sandbox.Policy{Write: []string{h.workDir(), homeDir, tmpDir}, Read: slices.Clone(sandbox.SystemPaths()), Mounts: true, Hide: []string{p.config.Dir}, Network: proj.Network},
		env:    h.environ(),
	}
	c.env["CLAUDE_CONFIG_DIR"], c.env["CLAUDE_CODE_TMPDIR"] = filepath.Join(homeDir, ".claude"), tmpDir
	c.env["IS_SANDBOX"] = "1" // otherwise Claude Code refuses bypassPermissions to root
	for _, m := range versionManagers {
		if dir := p.versionsDir(m); dir != "" {
			c.env[m.variable] = dir
			c.policy.Read = append(c.policy.Read, dir)
		}
	}
	if len(proj.Network.Allowed()) > 0 {
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
			c.env[name] = "http://" + sandbox.ProxyAddress
		}
		c.env["NO_PROXY"], c.env["no_proxy"], c.env["NODE_USE_ENV_PROXY"] = "", "", "1"
	}
	if proj.dir != "" { // if another agent has put a link into the path, the program does not start
		c.policy.Write = append(c.policy.Write, proj.dir)
	}
	if r != nil && r.Repository != "" {
		c.policy.Write = append(c.policy.Write, h.tree(r).GitDir)
		c.policy.Read = append(c.policy.Read, worktree.ReadableDirs(r.Repository)...)
	}
	c.policy.Read = slices.Concat(c.policy.Read, p.config.Read, proj.Read)
	c.policy.Write = slices.Concat(c.policy.Write, p.config.Write, proj.Write)
	return c, p.prepareHome(proj, h, r, c)
}

// environ returns the variables that make programs use the directories home and tmp of the agent.
func (h home) environ() map[string]string {
	tmp := h.join("tmp")
	return map[string]string{"HOME": h.join("home"), "TMPDIR": tmp, "TMP": tmp, "TEMP": tmp}
}

// prepareHome creates the agent's own directories and files. It adds to c what the agent's programs need outside of them: the shared
// cache and the login of the agent's program.
func (p *Place) prepareHome(proj project, h home, r *record, c *confinement) (err error) {
	homeDir, tmpDir := h.join("home"), h.join("tmp")
	for _, dir := range []string{homeDir, tmpDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return runner.HostError("cannot create the agent's own directory", err)
		}
	}
	name := proj.Name // an agent without a record has no name yet
	if r != nil {
		name = r.Name
	}
	files := runner.GitHomeFiles(gitEnviron(p.config), name, proj.Git)
	files.Dirs, files.Links = []string{".claude"}, map[string]string{}
	if files.Caches, err = p.shareCaches(proj, r, c); err != nil {
		return err
	}
	if f, ok := proj.driver.(driver.HomeFilesDriver); ok {
		for name, text := range f.HomeFiles() {
			files.Initial[name] = []byte(text)
		}
	}
	for _, login := range loginFiles[filepath.Base(proj.driver.Program())] {
		userFile := filepath.Join(p.serverVariable("HOME"), login)
		if info, err := os.Stat(userFile); err != nil || !info.Mode().IsRegular() || p.serverVariable("HOME") == "" {
			continue // the user has not logged in
		}
		target, err := filepath.EvalSymlinks(userFile) // no agent can change the path, see checkPaths
		if err != nil {
			return runner.HostError("cannot find the login of the agent's program", err)
		}
		files.Links[login] = userFile
		c.policy.Write = append(c.policy.Write, target)
	}
	return runner.WriteHomeFiles(context.Background(), homeDir, files)
}

// serverVariable returns a variable of the server's environment, or "" if it is not set or agents may not have it.
func (p *Place) serverVariable(name string) string {
	value, _ := p.lookUpVariable(name)
	return value
}
