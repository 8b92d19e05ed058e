// Program kubernetes is etcd and the API server of Kubernetes in one binary: `kubernetes etcd ...`
// or `kubernetes kube-apiserver ...`.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "say etcd or kube-apiserver")
		os.Exit(2)
	}
	name := os.Args[1]
	os.Args = append([]string{filepath.Join(filepath.Dir(os.Args[0]), name)}, os.Args[2:]...)
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(app.NewAPIServerCommand()))
	default:
		fmt.Fprintln(os.Stderr, "say etcd or kube-apiserver")
		os.Exit(2)
	}
}
