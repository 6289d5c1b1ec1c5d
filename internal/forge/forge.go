// Package forge opens pull requests on GitHub and merge requests on GitLab with their own programs, gh and glab, which have the logins of
// the server's user.
//
// Package app gives OpenPullRequest to the core. The package must never use a token of an agent.
package forge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// callTimeout is how long one call of a program may take.
const callTimeout = time.Minute

// forge describes a kind of forge and its program.
type forge struct {
	name         string // also occurs in the names of its hosts
	program      string
	loginCommand string // with which people log in
	urlKey       string // the JSON member that holds the address of a pull request in the output of findArgs
	createArgs   func(repository string, r fleet.PullRequest) (args []string, stdin string)
	findArgs     func(repository, branch string) []string // arguments that list the open pull requests of all branches with the name
	isFromFork   func(pullRequest map[string]any) bool    // whether the branch of a pull request in this list is in another repository
}

var forges = []forge{
	{
		name: "github", program: "gh", loginCommand: "gh auth login", urlKey: "url",
		createArgs: func(repository string, r fleet.PullRequest) ([]string, string) {
			args := []string{"pr", "create", "--repo", repository, "--head", r.Branch, "--base", r.Into, "--title", r.Title, "--body-file", "-"}
			if r.Draft {
				args = append(args, "--draft")
			}
			return args, r.Text
		},
		findArgs: func(repository, branch string) []string {
			return []string{"pr", "list", "--repo", repository, "--head", branch, "--state", "open", "--json", "url,isCrossRepository"}
		},
		isFromFork: func(pullRequest map[string]any) bool { return pullRequest["isCrossRepository"] == true },
	},
	{
		name: "gitlab", program: "glab", loginCommand: "glab auth login", urlKey: "web_url",
		createArgs: func(repository string, r fleet.PullRequest) ([]string, string) {
			args := []string{"mr", "create", "--repo", repository, "--source-branch", r.Branch, "--target-branch", r.Into, "--title", r.Title, "--description", r.Text, "--yes"}
			if r.Draft {
				args = append(args, "--draft")
			}
			return args, ""
		},
		findArgs: func(repository, branch string) []string {
			return []string{"mr", "list", "--repo", repository, "--source-branch", branch, "--output", "json"}
		},
		isFromFork: func(pullRequest map[string]any) bool {
			return pullRequest["source_project_id"] != pullRequest["target_project_id"]
		},
	},
}

// OpenPullRequest opens a pull request. It is a fleet.PullRequester.
func OpenPullRequest(ctx context.Context, r fleet.PullRequest) (string, error) {
	host, path := splitURL(r.URL)
	for _, f := range forges {
		if strings.Contains(host, f.name) {
			return f.open(ctx, host+"/"+path, r)
		}
	}
	return "", fleet.Errorf(fleet.ReasonUnimplemented, "the work was pushed, but the server does not know how to open a pull request at %s", host).
		Next("open it on the pages of that host")
}

// open returns the address of the open pull request of the branch. If there is none, it opens one.
func (f forge) open(ctx context.Context, repository string, r fleet.PullRequest) (string, error) {
	find := func() (string, error) {
		list, err := f.run(ctx, "", f.findArgs(repository, r.Branch)...)
		if err != nil {
			return "", err
		}
		address, err := f.firstURL(list)
		if err != nil {
			return "", fleet.Errorf(fleet.ReasonBackendUnavailable, "the program %s of the server answers in a form that Fleet does not know: update it", f.program).WithCause(err)
		}
		return address, nil
	}
	if address, err := find(); err != nil || address != "" {
		return address, err
	}
	args, stdin := f.createArgs(repository, r)
	if _, err := f.run(ctx, stdin, args...); err != nil {
		return "", err
	}
	address, err := find()
	if err == nil && address == "" {
		err = fleet.Errorf(fleet.ReasonBackendUnavailable, "the pull request was opened, but %s does not list it yet: try again", f.name)
	}
	return address, err
}

// firstURL returns the address of the first pull request in a list whose branch is not in a fork; "" if there is none.
func (f forge) firstURL(list []byte) (string, error) {
	var all []map[string]any
	if err := json.Unmarshal(list, &all); err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, f.isFromFork)
	if len(all) == 0 {
		return "", nil
	}
	address, ok := all[0][f.urlKey].(string)
	if !ok {
		return "", errors.New("a pull request has no " + f.urlKey)
	}
	return address, nil
}

// run runs the program, and returns what it writes to standard output.
func (f forge) run(ctx context.Context, stdin string, args ...string) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cmd := exec.CommandContext(limited, f.program, args...)
	cmd.Env = append(os.Environ(), "GH_PROMPT_DISABLED=1", "GLAB_NO_PROMPT=1", "NO_COLOR=1")
	cmd.Dir = os.TempDir() // so that the program does not read the configuration of a repository
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(stdin), &stderr
	out, err := cmd.Output()
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return nil, fleet.Errorf(fleet.ReasonUnimplemented, "the work was pushed, but the program %s is not installed for the server", f.program).
			Next("install it, and log in as the server's user with " + f.loginCommand)
	case limited.Err() != nil:
		return nil, fleet.Errorf(fleet.ReasonBackendUnavailable, "the work was pushed, but %s did not answer within %s", f.program, callTimeout)
	}
	why := fleet.Shorten(strings.Join(strings.Fields(tokenPattern.ReplaceAllString(stderr.String(), "***")), " "), 400)
	return nil, fleet.Errorf(fleet.ReasonBackendUnavailable, "the work was pushed, but %s fails: %s", f.program, why).
		Next("if it is not logged in, log in as the server's user with " + f.loginCommand)
}

// tokenPattern matches tokens of the forges.
var tokenPattern = regexp.MustCompile(`\b(gh[a-z]_|github_pat_|glpat-)[A-Za-z0-9_-]+`)

// splitURL returns the host and the path of the repository with the URL: https://HOST/PATH.git, ssh://USER@HOST:PORT/PATH, or USER@HOST:PATH.
func splitURL(address string) (host, path string) {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		host, path = u.Hostname(), u.Path
	} else {
		host, path, _ = strings.Cut(address, ":")
		host = host[strings.LastIndex(host, "@")+1:]
	}
	return strings.ToLower(host), strings.TrimSuffix(strings.Trim(path, "/"), ".git")
}
