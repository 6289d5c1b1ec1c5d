package definition

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"fleet/internal/fleet"
	"fleet/internal/scratch"
)

// artifact is a pulled artifact. Each artifact is stored in a file of its own.
type artifact struct {
	Owner     string    `json:"owner"`     // the principal who pulled it
	Reference string    `json:"reference"` // as the caller wrote it
	Canonical string    `json:"canonical"` // the reference with its registry, and its tag or digest
	Digest    string    `json:"digest"`
	Document  string    `json:"document"`
	PulledAt  time.Time `json:"pulled_at"`
}

// shortName returns the last part of the canonical reference: NAME:TAG, or NAME@DIGEST.
func (a *artifact) shortName() string {
	if i := strings.LastIndexByte(a.Canonical, '/'); i >= 0 {
		return a.Canonical[i+1:]
	}
	return a.Canonical
}

func (c *Catalog) artifactPath(a *artifact) string {
	sum := sha256.Sum256([]byte(a.Owner + "\x00" + a.Canonical))
	return filepath.Join(c.config.StoreDir, hex.EncodeToString(sum[:])+".json")
}

// store writes the artifact to its file. It replaces what the same owner pulled earlier by the same reference.
func (c *Catalog) store(a *artifact) error {
	if err := os.MkdirAll(c.config.StoreDir, 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return scratch.WriteFile(c.artifactPath(a), b)
}

// artifacts returns the stored artifacts that the context's principal may see, sorted by reference and owner. An admin
// sees all artifacts, and other principals see their own.
func (c *Catalog) artifacts(ctx context.Context) ([]*artifact, error) {
	if c.config.StoreDir == "" {
		return nil, nil
	}
	who, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	files, err := os.ReadDir(c.config.StoreDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, hostError("cannot read the store of agents", err)
	}
	var all []*artifact
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if path.Ext(f.Name()) != ".json" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(c.config.StoreDir, f.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		a := &artifact{}
		if err == nil {
			err = json.Unmarshal(b, a)
		}
		if err != nil {
			return nil, hostError("cannot read the store of agents", err)
		}
		if who.OwnsAll(a.Owner) {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(x, y *artifact) int {
		return cmp.Or(cmp.Compare(x.Reference, y.Reference), cmp.Compare(x.Owner, y.Owner))
	})
	return all, nil
}

// definition returns the artifact's definition. It checks the policy again, because the policy may have changed since
// the pull. If the policy refuses the definition, Problem says why.
func (c *Catalog) definition(a *artifact) fleet.Definition {
	d := fleet.Definition{Name: a.shortName(), Source: fleet.DefinitionStore, Reference: a.Reference, Digest: a.Digest}
	if p := c.describe(&d, []byte(a.Document)); p != nil {
		err := c.config.Policy.check(p)
		if err == nil && c.config.NoPrograms { // the policy may allow toolsets that the server refuses
			err = p.CheckPrograms()
		}
		if err != nil {
			d.Problem = err.Error()
		}
	}
	return d
}

// Artifacts implements fleet.Catalog.
func (c *Catalog) Artifacts(ctx context.Context) ([]fleet.Definition, error) {
	artifacts, err := c.artifacts(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]fleet.Definition, len(artifacts))
	for i, a := range artifacts {
		all[i] = c.definition(a)
	}
	return all, nil
}

// Artifact implements fleet.Catalog.
func (c *Catalog) Artifact(ctx context.Context, reference string) (fleet.Definition, error) {
	a, err := c.findArtifact(ctx, "agent", reference)
	if err != nil {
		return fleet.Definition{}, err
	}
	d := c.definition(a)
	if d.Problem != "" {
		return d, fleet.Errorf(fleet.ReasonDefinitionInvalid, "the agent %q cannot be used: %s", d.Reference, d.Problem)
	}
	return d, nil
}

// Remove implements fleet.Catalog.
func (c *Catalog) Remove(ctx context.Context, reference string) (fleet.PulledArtifact, error) {
	if _, err := requestedReference(reference); err != nil {
		return fleet.PulledArtifact{}, err
	}
	a, err := c.findArtifact(ctx, "registry_ref", reference)
	if err != nil {
		return fleet.PulledArtifact{}, err
	}
	if err := os.Remove(c.artifactPath(a)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fleet.PulledArtifact{}, hostError("cannot remove the agent", err)
	}
	return fleet.PulledArtifact{Digest: a.Digest, Reference: a.Reference}, nil
}

// findArtifact finds an artifact among those that the context's principal may see, by its reference or its short name. It
// prefers the principal's own artifacts. field is the request field that errors name.
func (c *Catalog) findArtifact(ctx context.Context, field, reference string) (*artifact, error) {
	notFound := fleet.Errorf(fleet.ReasonAgentNotFound, "there is no agent %q that you have pulled", fleet.Shorten(reference, 200)).Next("{pull_agent} pulls an agent from its registry")
	ref, err := parseReference(reference)
	if err != nil {
		return nil, notFound
	}
	stored, err := c.artifacts(ctx)
	if err != nil {
		return nil, err
	}
	who, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	for _, isOwner := range []bool{true, false} {
		var found []*artifact
		for _, a := range stored {
			if (a.Owner == who.Name) != isOwner {
				continue
			}
			if a.Canonical == ref.Name() {
				return a, nil
			}
			if a.shortName() == reference || a.shortName() == reference+":latest" {
				found = append(found, a)
			}
		}
		if len(found) == 1 {
			return found[0], nil
		}
		if len(found) > 1 {
			var names []string
			for _, a := range found {
				names = append(names, a.Reference)
			}
			return nil, fleet.InvalidField(field, "%q may mean several agents: use one of %s",
				fleet.Shorten(reference, 200), strings.Join(slices.Compact(names), ", "))
		}
	}
	return nil, notFound
}

// parseReference parses a reference to an artifact. It refuses paths, options of a command line, and URLs.
func parseReference(s string) (name.Reference, error) {
	if len(s) > 512 {
		return nil, errors.New("it is too long")
	}
	if s == "" || !strings.ContainsAny(s[:1], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789[") {
		return nil, errors.New("it starts like a path or an option")
	}
	if strings.Contains(s, "://") {
		return nil, errors.New("it is a URL")
	}
	return name.ParseReference(s)
}
