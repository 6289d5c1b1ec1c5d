// Command sbom writes the software bill of materials of Go programs as CycloneDX JSON to standard output. It reads the
// build information that the Go linker records in each program, so it lists exactly the modules that the programs
// contain.
package main

import (
	"cmp"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

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
		return errors.New("usage: sbom VERSION PROGRAM [PROGRAM ...]")
	}
	version, programs := args[0], args[1:]
	product := component(cdx.ComponentTypeApplication, "fleet", version)
	product.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "AGPL-3.0-only"}}}
	all := map[string]cdx.Component{}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return fmt.Errorf("read the modules of %s: %w", filepath.Base(program), err)
		}
		std := component(cdx.ComponentTypeLibrary, "std", info.GoVersion)
		all[std.BOMRef] = std
		for _, m := range info.Deps {
			c := module(m)
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

// module returns the component for a module, or for its replacement if go.mod replaces it.
func module(m *debug.Module) cdx.Component {
	if m.Replace != nil {
		m = m.Replace
	}
	return component(cdx.ComponentTypeLibrary, m.Path, m.Version)
}

// component returns a component that is identified by its Go package URL.
func component(kind cdx.ComponentType, name, version string) cdx.Component {
	url := "pkg:golang/" + name + "@" + version
	return cdx.Component{Type: kind, BOMRef: url, Name: name, Version: version, PackageURL: url}
}
