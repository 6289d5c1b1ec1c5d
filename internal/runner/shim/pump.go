package shim

import (
	"io"
	"os"

	"fleet/internal/runner/process"
)

// pump copies the child's output to files.
type pump struct {
	from          *os.File
	to            *output
	modelRequests *modelRequests // detects requests in the data; may be nil
	done          chan struct{}
}

func (p *pump) run() {
	defer close(p.done)
	var to io.Writer = p.to
	if p.modelRequests != nil {
		to = p.modelRequests
	}
	_ = process.Copy(to, p.from)
	if p.modelRequests != nil {
		p.modelRequests.flush()
	}
	p.to.Close()
}
