import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/**
 * An HDFS on loopback: a namenode and a datanode in this process, of Hadoop's own tests. Arguments: the namenode's port,
 * the folder of both; what lies there already is kept.
 */
public class MiniHdfs {
    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[1], "dfs").getAbsoluteFile();
        Configuration configuration = new Configuration();
        configuration.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, folder.getPath());
        configuration.setInt("dfs.replication", 1);
        configuration.set("dfs.permissions.enabled", "false");
        new MiniDFSCluster.Builder(configuration)
            .nameNodePort(Integer.parseInt(arguments[0]))
            .numDataNodes(1)
            .format(!new File(folder, "name-0-1").exists())
            .build()
            .waitClusterUp();
        System.out.println("ready");
        Thread.currentThread().join();
    }
}
