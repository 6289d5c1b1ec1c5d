// Command sbom writes the software bill of materials of Go programs as CycloneDX JSON to standard output. It reads the
// build information that the Go linker records in each program, so it lists exactly the modules that the programs
// contain. It also lists the npm packages of package-lock.json files that are not only for development: the page in the
// programs is built from them.
package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, args []string) error {
	if len(args) < 2 {
		return errors.New("usage: sbom VERSION FILE [FILE ...], where each file is a program or a package-lock.json")
	}
	version, files := args[0], args[1:]
	product := component(cdx.ComponentTypeApplication, "golang/", "fleet", version)
	product.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "AGPL-3.0-only"}}}
	all := map[string]cdx.Component{}
	for _, file := range files {
		read := modules
		if filepath.Base(file) == "package-lock.json" {
			read = packages
		}
		found, err := read(file)
		if err != nil {
			return fmt.Errorf("read the components of %s: %w", filepath.Base(file), err)
		}
		for _, c := range found {
			all[c.BOMRef] = c
		}
	}
	components := make([]cdx.Component, 0, len(all))
	for _, c := range all {
		components = append(components, c)
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	bom := cdx.NewBOM()
	bom.Metadata, bom.Components = &cdx.Metadata{Component: &product}, &components
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// modules returns the Go modules of a program, and the standard library.
func modules(program string) ([]cdx.Component, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	found := []cdx.Component{library("golang/", "std", info.GoVersion)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		found = append(found, library("golang/", m.Path, m.Version))
	}
	return found, nil
}

// packages returns the npm packages of a lock file that are not only for development.
func packages(lock string) (found []cdx.Component, err error) {
	b, err := os.ReadFile(lock)
	if err != nil {
		return nil, err
	}
	var content struct {
		Packages map[string]struct {
			Version string
			Dev     bool
		}
	}
	if err := json.Unmarshal(b, &content); err != nil {
		return nil, err
	}
	const dir = "node_modules/"
	for path, p := range content.Packages {
		at := strings.LastIndex(path, dir)
		if at < 0 || p.Dev { // without dir, it is the project itself
			continue
		}
		found = append(found, library("npm/", path[at+len(dir):], p.Version))
	}
	return found, nil
}

func library(kind, name, version string) cdx.Component {
	return component(cdx.ComponentTypeLibrary, kind, name, version)
}

// component returns a component that is identified by its package URL.
func component(as cdx.ComponentType, kind, name, version string) cdx.Component {
	url := "pkg:" + kind + strings.ReplaceAll(name, "@", "%40") + "@" + version
	return cdx.Component{Type: as, BOMRef: url, Name: name, Version: version, PackageURL: url}
}
