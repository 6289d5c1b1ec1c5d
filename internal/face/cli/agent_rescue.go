package cli

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/scratch"
)

func (p *program) newAgentRescue() *cobra.Command {
	var dir, file string
	cmd := &cobra.Command{
		Use:   "rescue AGENT",
		Short: "Fetch the unpushed work of an agent, even of a deleted one",
		Long: `Fetch the work that an agent had not pushed into a git repository. Branches with
commits that are on no remote are saved below rescue/AGENT/. The agent's working tree,
including uncommitted changes, becomes the branch rescue/AGENT.tree. The tree at the
end of each task is below refs/fleet/.

The agent may have been deleted: Fleet keeps its work as long as payloads. The
repository must have the commits that the agent began with; run git fetch first.

With -o, the command writes the work to a file instead, as a git bundle.`,
		Example: `  fleet agent rescue papi
  fleet agent rescue papi --into ~/src/webshop
  fleet agent rescue papi -o papi.bundle`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			if err := checkOutputFile(file); err != nil {
				return err
			}
			b := &bundleFetch{session: s, agent: args[0], dir: dir}
			if file != "" {
				err := s.save(b.bundle(ctx), file)
				if err == nil && file != "-" {
					s.hint("Its branches: git bundle list-heads %s", file)
				}
				return err
			}
			var err error
			if b.gitPath, err = exec.LookPath("git"); err != nil {
				return Fail(ExitError, "install git, or write the bundle with -o FILE", "git was not found")
			}
			return b.fetch(ctx)
		}),
	}
	cmd.Flags().StringVar(&dir, "into", ".", "fetch into the repository in `DIR`")
	cmd.Flags().StringVarP(&file, "output", "o", "", "write the bundle to `FILE`, or to standard output with -")
	return cmd
}

// bundleFetch fetches the bundle of an agent.
type bundleFetch struct {
	*session
	agent, dir string
	gitPath    string // absolute path of git
}

// bundle returns a reader that downloads the agent's bundle.
func (b *bundleFetch) bundle(ctx context.Context) *downloadReader {
	return b.newDownloadReader(ctx, fleetv1.FleetService_DownloadAgentBundle_FullMethodName, &fleetv1.DownloadAgentBundleRequest{AgentName: b.agent}, nil)
}

// fetch fetches the bundle into the repository, and prints the names of the branches that it creates or updates.
func (b *bundleFetch) fetch(ctx context.Context) (err error) {
	defer func() {
		if err != nil && ctx.Err() != nil { // the end of ctx has stopped git
			err = context.Cause(ctx)
		}
	}()
	gitDir, err := b.git(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return usagef("%s is not in a git repository: give a clone of the agent's project with --into, or write the bundle with -o FILE", b.dir)
	}
	tmp, err := scratch.Open(filepath.Join(strings.TrimSpace(gitDir), "fleet-rescue"))
	if err != nil {
		return err
	}
	defer func() { _ = tmp.Close() }()
	file := filepath.Join(tmp.Path(), "bundle")
	if _, err := writeFile(file, b.bundle(ctx)); err != nil {
		return downloadError(err)
	}
	heads, err := b.git(ctx, "bundle", "list-heads", file)
	if err != nil {
		return Fail(ExitError, "write the bundle to a file with -o FILE to inspect it", "git cannot read the bundle: %v", err)
	}
	specs, branches := rescueRefspecs(b.agent, heads)
	// The agent's git objects are not trusted, so git checks them.
	args := append([]string{"-c", "transfer.fsckObjects=true", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", file}, specs...)
	if _, err := b.git(ctx, args...); err != nil {
		return Fail(ExitError, "run git fetch first in a clone of the agent's project, or write the bundle with -o FILE", "git refused the bundle: %v", err)
	}
	if len(branches) == 0 {
		b.note("The bundle has no branches. Its other refs are below refs/fleet: git for-each-ref refs/fleet")
		return nil
	}
	for _, branch := range branches {
		b.screen.print(printable(branch) + "\n")
	}
	b.hint("Look at it: git log -p %s", branches[len(branches)-1])
	return nil
}

// rescueRefspecs returns the refspecs that fetch the branches of a bundle and its refs below refs/fleet/, and the names of the
// branches that they create. The branch of the working tree is the last. agent is the agent's name, with or without its
// owner. heads is the output of "git bundle list-heads".
func rescueRefspecs(agent, heads string) (specs, branches []string) {
	name, _, _ := strings.Cut(agent, "@")
	prefix, treeBranch := "rescue/"+name+"/", "rescue/"+name+".tree" // no agent has a name with a dot
	var tree []string
	for line := range strings.Lines(heads) {
		_, ref, _ := strings.Cut(strings.TrimSpace(line), " ")
		branch, isBranch := strings.CutPrefix(ref, "refs/heads/")
		isTree, _ := path.Match("refs/fleet/*/last", ref) // refs/fleet/UID/tags/last is a tag of the agent
		switch {
		case isBranch:
			branches = append(branches, prefix+branch)
			specs = append(specs, "+"+ref+":refs/heads/"+prefix+branch)
		case isTree:
			tree = []string{treeBranch}
			specs = append(specs, "+"+ref+":refs/heads/"+treeBranch)
		case strings.HasPrefix(ref, "refs/fleet/"):
			specs = append(specs, "+"+ref+":"+ref)
		}
	}
	return specs, append(branches, tree...)
}

// git runs git in the repository and returns its standard output. If git fails, the error is what git wrote to standard
// error.
func (b *bundleFetch) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, b.gitPath, append([]string{"-C", b.dir}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if stderr := strings.TrimSpace(errs.String()); err != nil && stderr != "" {
		err = errors.New(printable(stderr))
	}
	return out.String(), err
}
