//go:build cgo

package run

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"

	"github.com/docker/cagent/pkg/config/latest"
)

// bodyEdits are changes to the fields of a request's body.
type bodyEdits struct {
	Set  map[string]any `json:"set"`  // new values, by field
	Drop []string       `json:"drop"` // fields to remove
}

// bodyEditsOf returns the edits in the model's options (provider_opts.request), and removes them from the options.
func bodyEditsOf(m *latest.ModelConfig) (b bodyEdits, err error) {
	opts, ok := m.ProviderOpts["request"]
	if !ok {
		return b, nil
	}
	m.ProviderOpts = maps.Clone(m.ProviderOpts)
	delete(m.ProviderOpts, "request")
	raw, err := json.Marshal(opts)
	if err == nil {
		err = json.Unmarshal(raw, &b)
	}
	return b, err
}

// apply applies the edits to the request's body. A body that is not a JSON object stays unchanged.
func (b bodyEdits) apply(r *http.Request) error {
	if r.Body == nil || len(b.Set)+len(b.Drop) == 0 {
		return nil
	}
	raw, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil {
		return err
	}
	var body map[string]json.RawMessage
	if json.Unmarshal(raw, &body) == nil && body != nil {
		for _, key := range b.Drop {
			delete(body, key)
		}
		for key, v := range b.Set {
			if body[key], err = json.Marshal(v); err != nil {
				return err
			}
		}
		if raw, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }
	return nil
}
