"""What tests of YARN and of HDFS need of Hadoop."""
