package fleet

import "context"

// PullRequest is a request to a forge, such as GitHub, to bring a branch into another one.
type PullRequest struct {
	URL         string // of the repository with both branches
	Branch      string
	Into        string
	Title, Text string
	Draft       bool
}

// PullRequester opens a pull request and returns its address. If the branch already has one, it returns the address of that
// one. The error is UNIMPLEMENTED if it does not know the forge.
type PullRequester func(ctx context.Context, r PullRequest) (address string, err error)
