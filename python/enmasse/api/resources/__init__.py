"""The resource paths: reads, writes, patches and watches of all kinds."""
